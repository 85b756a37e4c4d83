// The app of kills.mjs: node kills-target.mjs PORT SERVER_URL JOURNAL GENERATION SEED. What it does stands in the journal
// before it is done, and outlives it; its parent is told when there is something new.

import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { openSync, writeSync } from 'node:fs'
import { createServer } from 'node:http'
import { setTimeout as work } from 'node:timers/promises'
import { QueueClient } from '@vercel/queue'
import { entrances } from './apps.mjs'
import { random } from './random.mjs'

const [port, server, path, generation, seed] = process.argv.slice(2)
const LEASE_MS = 30_000
const journal = openSync(path, 'a')
const draw = random(Number(seed))
const pushes = new AsyncLocalStorage()
let count = 0

// The clock is one for all processes of the machine.
const now = () => Number(process.hrtime.bigint() / 1_000n)

function note (what, push, more) {
  const line = { at: now(), what, key: push.key, message: push.message, generation: Number(generation), ...more }
  writeSync(journal, `${JSON.stringify(line)}\n`)
}

// The package finds it when it calls: what it asks the server for is seen here, and what the server says.
const { fetch } = globalThis
globalThis.fetch = async (url, options) => {
  const push = pushes.getStore()
  const [sent, path] = [now(), new URL(url).pathname]
  const acks = options.method === 'DELETE'
  if (acks) note('ack', push)
  const response = await fetch(url, options)
  if (acks && response.status === 204) {
    note('acked', push)
    process.send({})
  }
  if (path.includes('/id/') && response.status === 200) note('begin', push, { until: sent + LEASE_MS * 1_000 })
  return response
}

async function handler () {
  const chance = draw()
  // Most have little to do. Some take long enough to be at work when something is killed, and some fail.
  if (chance < 0.02) await work(100 + 500 * draw())
  if (chance > 0.99) {
    note('threw', pushes.getStore())
    throw new Error('on purpose')
  }
}

const resolveBaseUrl = () => new URL(server)
const client = new QueueClient({ region: 'iad1', token: 'any', deploymentId: null, resolveBaseUrl })
const callback = entrances.web(client, handler, { visibilityTimeoutSeconds: LEASE_MS / 1_000 })
// Failures are part of it.
console.error = () => {}
const listener = createServer((request, response) => {
  const { headers } = request
  count += 1
  const push = { key: `${generation}-${count}`, message: headers['ce-vqsmessageid'] }
  const deadline = headers['ce-vqsvisibilitydeadline']
  if (deadline) note('begin', push, { until: now() + (Date.parse(deadline) - Date.now()) * 1_000 })
  process.send({})
  pushes.run(push, async () => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    await callback(request, response, Buffer.concat(chunks))
  }).catch(() => request.destroy())
})
listener.listen(Number(port), '127.0.0.1')
await once(listener, 'listening')
process.send({ port: listener.address().port })
