// pg-boss under load: see ../node/measure.mjs. TARGET is the URL of its database.
import { PgBoss } from 'pg-boss';
import { beCalled, call, callers, fail, payload, scenario, target } from '../node/measure.mjs';

// Jobs that are completed are kept, as they are unless somebody sets it otherwise; nothing is deleted while it is measured.
const boss = new PgBoss({ connectionString: target, max: Math.min(callers, 32), useListenNotify: true });
boss.on('error', fail);
await boss.start();
await boss.createQueue(scenario, { notify: scenario === 'latency' });

const send = (stamp, count) =>
  count === 1
    ? boss.send(scenario, { data: payload(stamp) })
    : boss.insert(scenario, Array.from({ length: count }, () => ({ data: { data: payload(stamp) } })));

async function take(count) {
  const jobs = await boss.fetch(scenario, { batchSize: count });
  if (jobs.length > 0) await boss.complete(scenario, jobs.map((job) => job.id));
  return jobs.map((job) => job.data.data);
}

async function work(concurrency, handler) {
  const options = { localConcurrency: concurrency, pollingIntervalSeconds: 0.5, batchSize: 1 };
  await boss.work(scenario, options, async (jobs) => jobs.forEach((job) => handler(job.data.data)));
}

await (scenario === 'latency' ? beCalled({ send, work }) : call({ send, take }));
