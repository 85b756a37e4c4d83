// BullMQ under load: see ../node/measure.mjs. TARGET is the port of its Redis.
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { beCalled, call, fail, payload, scenario, target } from '../node/measure.mjs';

const WORKERS = 4;
const connect = () => new Redis({ host: '127.0.0.1', port: Number(target), maxRetriesPerRequest: null });
const queue = new Queue(scenario, { connection: connect() });
const options = { removeOnComplete: true };

const send = (stamp, count) =>
  count === 1
    ? queue.add('j', payload(stamp), options)
    : queue.addBulk(Array.from({ length: count }, () => ({ name: 'j', data: payload(stamp), opts: options })));

function work(concurrency, handler, completed) {
  for (let index = 0; index < WORKERS; index += 1) {
    const each = Math.max(1, Math.ceil(concurrency / WORKERS));
    const worker = new Worker(scenario, async (job) => handler(job.data), { connection: connect(), concurrency: each });
    worker.on('completed', (job) => completed(job.data));
    worker.on('error', fail);
  }
}

await (scenario === 'sends' ? call({ send }) : beCalled({ send, work }));
