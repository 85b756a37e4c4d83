// What the loads of Node libraries share: `node load.mjs SCENARIO TARGET SECONDS WARM_UP CALLERS DATA_BYTES RATE`.
// Prints "begin" when the measured time begins, and one line of JSON when it is over.
const [scenario, target, ...numbers] = process.argv.slice(2);
const [seconds, warmUp, callers, dataBytes, rate] = numbers.map(Number);
const STAMP_DIGITS = 20;
const filler = 'abcdefghijklmnopqrstuvwxyz'.repeat(Math.ceil(dataBytes / 26)).slice(STAMP_DIGITS, dataBytes);

export { scenario, target, callers };
export const BATCH = 100;
// Workers of the scenario latency.
export const HANDLERS = 4;
export const now = () => Math.round(performance.now() * 1000);
export const payload = (stamp) => String(stamp).padStart(STAMP_DIGITS, '0') + filler;
export const stampOf = (data) => Number(data.slice(0, STAMP_DIGITS));
export const fail = (error) => {
  console.error(error);
  process.exit(1);
};

let messages = 0;
let counts = false;
let micros = [];
const took = (since) => counts && micros.push(now() - since);

// Of a library that is called: a caller's next call follows the answer to the last.
// send(stamp, count), take(count): what was taken and completed, as data.
export async function call({ send, take }) {
  const batch = scenario === 'batches' ? BATCH : 1;
  const again = async () => {
    for (;;) {
      const begun = now();
      await send(begun, batch);
      if (scenario === 'sends') {
        took(begun);
        messages += batch;
        continue;
      }
      for (let left = batch; left > 0; ) {
        const taken = await take(left);
        for (const data of taken) took(stampOf(data));
        messages += taken.length;
        left -= taken.length;
      }
    }
  };
  for (let index = 0; index < callers; index += 1) again().catch(fail);
  await report();
}

// Of a library that calls: so many are under way, whoever's; a new one, or a new hundred, follows each that is completed.
// send(stamp, count), work(concurrency, handler, completed): handler is called with data, completed when that is stored.
export async function beCalled({ send, work }) {
  if (scenario === 'latency') {
    await work(HANDLERS, (data) => took(stampOf(data)), () => {});
    arrive(send);
  } else {
    const batch = scenario === 'batches' ? BATCH : 1;
    let done = 0;
    await work(batch === 1 ? callers : BATCH, () => {}, (data) => {
      messages += 1;
      took(stampOf(data));
      done += 1;
      if (done % batch === 0) send(now(), batch).catch(fail);
    });
    for (let index = 0; index < callers; index += 1) send(now(), batch).catch(fail);
  }
  await report();
}

function arrive(send) {
  const begun = performance.now();
  let sent = 0;
  setInterval(() => {
    const due = Math.floor(((performance.now() - begun) / 1000) * rate);
    for (; sent < due; sent += 1) send(now(), 1).catch(fail);
  }, 1);
}

const quantile = (sorted, part) => sorted[Math.round((sorted.length - 1) * part)] ?? 0;
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time * 1000));

async function report() {
  await sleep(warmUp);
  console.log('begin');
  const before = { messages, cpu: process.cpuUsage(), at: performance.now() };
  counts = true;
  await sleep(seconds);
  counts = false;
  const cpu = process.cpuUsage(before.cpu);
  micros.sort((left, right) => left - right);
  const reached = {
    // Of the scenario latency those that came.
    messages: scenario === 'latency' ? micros.length : messages - before.messages,
    seconds: (performance.now() - before.at) / 1000,
    cpu_micros: cpu.user + cpu.system,
    p50_micros: quantile(micros, 0.5),
    p99_micros: quantile(micros, 0.99),
  };
  process.stdout.write(`${JSON.stringify(reached)}\n`, () => process.exit(0));
}
