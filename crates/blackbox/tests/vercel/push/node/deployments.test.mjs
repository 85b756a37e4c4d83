// `millpond deploy` of projects with a vercel.json: whose app gets which message. Each test has a server of its own.

import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { app } from './apps.mjs'
import { Millpond, directory } from './millpond.mjs'
import { Seen } from './seen.mjs'

const beside = (path) => fileURLToPath(new URL(path, import.meta.url))

async function started (t) {
  const millpond = await new Millpond().start()
  t.after(() => millpond.stop())
  return millpond
}

/** A project with these functions, each a file and its triggers. */
function project (functions) {
  const path = directory()
  for (const file of Object.keys(functions)) {
    mkdirSync(dirname(join(path, file)), { recursive: true })
    writeFileSync(join(path, file), 'export const POST = () => {}\n')
  }
  const entries = Object.entries(functions).map(([file, triggers]) => [file, { experimentalTriggers: triggers }])
  writeFileSync(join(path, 'vercel.json'), JSON.stringify({ functions: Object.fromEntries(entries) }))
  return path
}

const onOrders = (settings) => ({ 'api/orders.js': [{ type: 'queue/v2beta', topic: 'orders', ...settings }] })

function deploy (millpond, path, own, deployment, ...further) {
  return millpond.command('deploy', path, '--app', own.url, '--deployment', deployment, '--yes', ...further)
}

const remove = (millpond, deployment) => millpond.command('deployment', 'remove', deployment, '--yes')

/** An app of a deployment, and its client. */
async function deployed (t, millpond, deployment, { functions = onOrders(), handler, further = [] } = {}) {
  const client = millpond.client({ deploymentId: deployment })
  const own = await app(t, 'web', client, handler)
  await deploy(millpond, project(functions), own, deployment, ...further)
  return { ...own, client, deployment }
}

const statuses = ({ replies }) => replies.map(({ status }) => status)
const numbers = ({ handled }) => handled.map(({ payload }) => payload.number)

describe('deployments', { concurrency: 8 }, () => {
  test('the function of a trigger is called at its path, as its group', async (t) => {
    const millpond = await started(t)
    const functions = {
      'app/api/queue/orders/route.ts': [{ type: 'queue/v2beta', topic: 'orders' }],
      'api/mail.js': [{ type: 'queue/v2beta', topic: 'mail-*' }],
      'src/pages/api/search_index.mts': [{ type: 'queue/v2beta', topic: 'orders' }]
    }
    const own = await deployed(t, millpond, 'dpl_1', { functions })
    await own.client.send('orders', {})
    await own.client.send('mail-welcome', {})
    await own.replies.count(3)
    assert.ok(own.replies.every(({ status }) => status === 200))
    const called = ({ url, headers }) => [url, headers['ce-vqsconsumergroup'], headers['ce-vqsqueuename']]
    assert.deepEqual(own.requests.map(called).sort(), [
      ['/api/mail', 'api_Smail_Djs', 'mail-welcome'],
      ['/api/queue/orders', 'app_Sapi_Squeue_Sorders_Sroute_Dts', 'orders'],
      ['/api/search_index', 'src_Spages_Sapi_Ssearch__index_Dmts', 'orders']
    ])
  })

  test('the settings of a trigger hold', async (t) => {
    const millpond = await started(t)
    await millpond.call('POST', '/v1/queues?queue_id=dead', {})
    const settings = { retryAfterSeconds: 1, maxDeliveries: 2, maxConcurrency: 1 }
    let [running, most] = [0, 0]
    const handler = async ({ poison }) => {
      running += 1
      most = Math.max(most, running)
      // Whatever the server would do meanwhile, it has begun when it answers this.
      await millpond.call('GET', '/v1/queues/dead')
      running -= 1
      if (poison) throw new Error('on purpose')
    }
    const further = ['--dead-letter-queue', 'dead', '--lease', '30']
    const own = await deployed(t, millpond, 'dpl_1', { functions: onOrders(settings), handler, further })
    await own.client.send('orders', { poison: true })
    for (let number = 0; number < 20; number += 1) await own.client.send('orders', { number })
    const { messages: [dead] } = await millpond.call('POST', '/v1/queues/dead:lease', { wait: '20s' })
    assert.deepEqual(dead.event.data, { poison: true })
    await own.replies.count(22)
    assert.equal(most, 1)
    const [{ headers, at }] = own.requests
    const lease = Date.parse(headers['ce-vqsvisibilitydeadline']) - at
    assert.ok(lease > 0 && lease <= 30_000, `${lease} ms`)
  })

  test('each drains its own messages', async (t) => {
    const millpond = await started(t)
    const both = [await deployed(t, millpond, 'dpl_1'), await deployed(t, millpond, 'dpl_2')]
    for (let number = 0; number < 10; number += 1) await both[number % 2].client.send('orders', { number })
    for (const { replies } of both) await replies.count(5)
    assert.deepEqual(both.map((own) => numbers(own).sort()), [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]])
  })

  test('messages without a deployment go to the one that was deployed last', async (t) => {
    const millpond = await started(t)
    const nobody = millpond.client()
    await nobody.send('orders', { number: 0 })
    const first = await deployed(t, millpond, 'dpl_1')
    await first.replies.count(1)
    const second = await deployed(t, millpond, 'dpl_2')
    await nobody.send('orders', { number: 1 })
    await second.replies.count(1)
    // Rolled back.
    await deploy(millpond, project(onOrders()), first, 'dpl_1')
    await nobody.send('orders', { number: 2 })
    await first.replies.count(2)
    await second.client.send('orders', { number: 3 })
    await second.replies.count(2)
    assert.deepEqual([numbers(first), numbers(second)], [[0, 2], [1, 3]])
    assert.deepEqual([first, second].map(statuses), [[200, 200], [200, 200]])
  })

  test('one that is removed gets nothing more, and its messages wait for it', async (t) => {
    const millpond = await started(t)
    const first = await deployed(t, millpond, 'dpl_1')
    const second = await deployed(t, millpond, 'dpl_2')
    await first.client.send('orders', { number: 0 })
    await first.replies.count(1)
    const list = await millpond.command('deployment', 'list', '--json')
    assert.ok(['dpl_1', 'dpl_2'].every((id) => list.includes(id)), list)
    await remove(millpond, 'dpl_1')
    await first.client.send('orders', { number: 1 })
    for (let number = 2; number < 12; number += 1) await second.client.send('orders', { number })
    await second.replies.count(10)
    assert.deepEqual(numbers(first), [0])
    assert.ok(!(await millpond.command('deployment', 'list', '--json')).includes('dpl_1'))
    await deploy(millpond, project(onOrders()), first, 'dpl_1')
    await first.replies.count(2)
    assert.deepEqual(numbers(first), [0, 1])
  })

  test('when the last one deployed is removed, messages without a deployment go to the one before', async (t) => {
    const millpond = await started(t)
    const first = await deployed(t, millpond, 'dpl_1')
    const second = await deployed(t, millpond, 'dpl_2')
    await remove(millpond, 'dpl_2')
    await millpond.client().send('orders', { number: 0 })
    await first.replies.count(1)
    assert.deepEqual([numbers(first), statuses(first), numbers(second)], [[0], [200], []])
  })

  test('deployed again it has the triggers of the new project only', async (t) => {
    const millpond = await started(t)
    const functions = { ...onOrders(), 'api/mail.js': [{ type: 'queue/v2beta', topic: 'mail' }] }
    const own = await deployed(t, millpond, 'dpl_1', { functions })
    await own.client.send('mail', { number: 0 })
    await own.replies.count(1)
    await deploy(millpond, project(onOrders()), own, 'dpl_1')
    await own.client.send('mail', { number: 1 })
    await own.client.send('orders', { number: 2 })
    await own.replies.count(2)
    assert.deepEqual(numbers(own), [0, 2])
  })

  test('an app that only calls the top-level functions works with the preload', async (t) => {
    const millpond = await started(t)
    const inherited = Object.entries(process.env).filter(([name]) => !/^(VERCEL_|MILLPOND_|NODE_)/.test(name))
    const own = { MILLPOND_VERCEL_URL: millpond.url, VERCEL_DEPLOYMENT_ID: 'dpl_1', NODE_ENV: 'production' }
    const execArgv = ['--import', beside('../../../../../../sdk/vercel-preload/millpond-vercel.mjs')]
    const child = fork(beside('unmodified.mjs'), [], { execArgv, env: { ...Object.fromEntries(inherited), ...own } })
    t.after(() => child.kill('SIGKILL'))
    const events = new Seen()
    child.on('message', (event) => { events.push(event) })
    const { port } = await events.until((events) => events.find(({ port }) => port))
    await deploy(millpond, project(onOrders()), { url: `http://127.0.0.1:${port}` }, 'dpl_1')
    await millpond.client({ deploymentId: 'dpl_1' }).send('orders', { number: 3 })
    await events.until((events) => events.filter(({ replied }) => replied).length === 4)
    assert.deepEqual(events.filter(({ order }) => order).map(({ order }) => order.number), [3, 2, 1, 0])
    assert.ok(events.filter(({ replied }) => replied).every(({ replied }) => replied === 200))
  })

  test('a server that is killed knows them afterwards', async (t) => {
    const millpond = await started(t)
    const both = [await deployed(t, millpond, 'dpl_1'), await deployed(t, millpond, 'dpl_2')]
    await millpond.kill()
    await millpond.start()
    for (const own of both) await own.client.send('orders', { number: 1 })
    await millpond.client().send('orders', { number: 2 })
    await both[0].replies.count(1)
    await both[1].replies.count(2)
    assert.deepEqual(both.map((own) => numbers(own).sort()), [[1], [1, 2]])
  })
})
