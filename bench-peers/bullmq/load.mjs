// BullMQ under load: `node load.mjs SCENARIO PORT SECONDS WARM_UP CALLERS DATA_BYTES RATE`.
// Prints "begin" when the measured time begins, and one line of JSON when it is over.
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const [scenario, ...numbers] = process.argv.slice(2);
const [port, seconds, warmUp, callers, dataBytes, rate] = numbers.map(Number);
const BATCH = 100;
const WORKERS = 4;
const STAMP_DIGITS = 20;

const connect = () => new Redis({ host: '127.0.0.1', port, maxRetriesPerRequest: null });
const queue = new Queue(scenario, { connection: connect() });
const filler = 'abcdefghijklmnopqrstuvwxyz'.repeat(Math.ceil(dataBytes / 26)).slice(STAMP_DIGITS, dataBytes);
const options = { removeOnComplete: true };

const now = () => Math.round(performance.now() * 1000);
const payload = (stamp) => String(stamp).padStart(STAMP_DIGITS, '0') + filler;
const stampOf = (data) => Number(data.slice(0, STAMP_DIGITS));

let messages = 0;
let counts = false;
let micros = [];
const took = (since) => counts && micros.push(now() - since);
const fail = (error) => {
  console.error(error);
  process.exit(1);
};

function startWorkers(concurrency, onMessage) {
  for (let index = 0; index < WORKERS; index += 1) {
    const each = Math.max(1, Math.ceil(concurrency / WORKERS));
    const worker = new Worker(scenario, async (job) => onMessage(job.data), { connection: connect(), concurrency: each });
    worker.on('completed', completed);
    worker.on('error', fail);
  }
}

const send = (stamp) => queue.add('j', payload(stamp), options);
const sendHundred = (stamp) =>
  queue.addBulk(Array.from({ length: BATCH }, () => ({ name: 'j', data: payload(stamp), opts: options })));

let completed = () => {
  messages += 1;
};

async function sendAgain() {
  for (;;) {
    const begun = now();
    await send(begun);
    took(begun);
    messages += 1;
  }
}

// So many are under way, whoever's: a new one, or a new hundred, follows each that is completed.
function liveAgain(batch) {
  const again = batch === 1 ? send : sendHundred;
  let done = 0;
  completed = (job) => {
    messages += 1;
    took(stampOf(job.data));
    done += 1;
    if (done % batch === 0) again(now()).catch(fail);
  };
  startWorkers(callers * batch === callers ? callers : BATCH, () => {});
  for (let index = 0; index < callers; index += 1) again(now()).catch(fail);
}

function arrive() {
  startWorkers(WORKERS, (data) => took(stampOf(data)));
  const begun = performance.now();
  let sent = 0;
  setInterval(() => {
    const due = Math.floor(((performance.now() - begun) / 1000) * rate);
    for (; sent < due; sent += 1) send(now()).catch(fail);
  }, 1);
}

const quantile = (sorted, part) => sorted[Math.round((sorted.length - 1) * part)] ?? 0;
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time * 1000));

if (scenario === 'sends') for (let index = 0; index < callers; index += 1) sendAgain().catch(fail);
else if (scenario === 'lifecycle') liveAgain(1);
else if (scenario === 'batches') liveAgain(BATCH);
else arrive();

await sleep(warmUp);
console.log('begin');
const before = { messages, cpu: process.cpuUsage(), at: performance.now() };
counts = true;
await sleep(seconds);
counts = false;
const cpu = process.cpuUsage(before.cpu);
micros.sort((left, right) => left - right);
const report = {
  messages: messages - before.messages,
  seconds: (performance.now() - before.at) / 1000,
  cpu_micros: cpu.user + cpu.system,
  p50_micros: quantile(micros, 0.5),
  p99_micros: quantile(micros, 0.99),
};
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
