// Graphile Worker under load: see ../node/measure.mjs. TARGET is the URL of its database.
import { makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';
import { beCalled, BATCH, call, callers, fail, payload, scenario, target } from '../node/measure.mjs';

const pgPool = new pg.Pool({ connectionString: target, max: 32 });
pgPool.on('error', fail);
pgPool.on('connect', (client) => client.on('error', fail));
const utils = await makeWorkerUtils({ pgPool });
await utils.migrate();

const send = (stamp, count) =>
  count === 1
    ? utils.addJob(scenario, { data: payload(stamp) })
    : utils.addJobs(Array.from({ length: count }, () => ({ identifier: scenario, payload: { data: payload(stamp) } })));

// Its settings for speed: jobs are locked and completed by the batch (a local queue, completions without delay).
async function work(concurrency, handler, completed) {
  const concurrentJobs = scenario === 'latency' ? concurrency : Math.min(callers * (scenario === 'batches' ? BATCH : 1), 256);
  const worker = {
    concurrentJobs,
    maxPoolSize: 32,
    pollInterval: 2000,
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    ...(scenario === 'latency' ? {} : { localQueue: { size: 500 } }),
  };
  const quiet = () => () => {};
  const { Logger } = await import('graphile-worker');
  const runner = await run({
    pgPool,
    preset: { worker },
    logger: new Logger(quiet),
    noHandleSignals: true,
    taskList: { [scenario]: async ({ data }) => handler(data) },
  });
  runner.events.on('job:complete', ({ job, error }) => (error ? fail(error) : completed(job.payload.data)));
}

await (scenario === 'sends' ? call({ send }) : beCalled({ send, work }));
