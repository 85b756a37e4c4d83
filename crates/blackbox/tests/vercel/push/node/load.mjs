// What pushes reach with an app that has nothing to do, and what they cost the server.
//
//   node load.mjs URL SERVER_PID SECONDS     prints a line of JSON for each concurrency, and one for light load
//   node load.mjs app URL                    the app: one handler of @vercel/queue, in a process of its own
//
// The first are of a backlog that is worked off. Light is one message after the other, each sent when the one before has
// come: the time is from before the call that sends to the begin of the handler.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { QueueClient } from '@vercel/queue'
import { entrances } from './apps.mjs'

const CONCURRENCIES = [1, 16, 64]
const GROUP = 'workers'
const WARM_UP_MS = 2_000
const LIGHT = 500
const TICKS_PER_SECOND = 100
const BATCH = 100
const payload = { filler: 'x'.repeat(240) }

const [url, pid, seconds] = process.argv.slice(2)
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const round = (value) => Math.round(value * 100) / 100

function clientOf (url) {
  return new QueueClient({ region: 'iad1', token: 'any', deploymentId: null, resolveBaseUrl: () => new URL(url) })
}

async function listen (client, handler) {
  const callback = entrances.web(client, handler)
  const server = createServer(async (request, response) => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    await callback(request, response, Buffer.concat(chunks))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${server.address().port}/`
}

async function call (method, path, body) {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
}

function cpuMicros () {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) * (1_000_000 / TICKS_PER_SECOND)
}

/** A backlog that is worked off by a trigger of this concurrency. */
async function backlog (app, concurrency) {
  const topic = `load-${concurrency}-${Date.now()}`
  const client = clientOf(url)
  const batch = Array.from({ length: BATCH }, () => ({ payload }))
  // More than anything here works off; a sender beside it would take processor time from it.
  const messages = Math.max(2_000, Math.min(60_000, concurrency * 6_000)) * (Number(seconds) / 10)
  for (let sent = 0; sent < messages; sent += BATCH) await client.experimental_sendBatch(topic, batch)
  const counted = async () => {
    app.process.send('count')
    const [count] = await once(app.process, 'message')
    return count
  }
  const spec = { topic, group: GROUP, target: app.url, max_concurrency: concurrency }
  await call('POST', `/v1/triggers?trigger_id=${topic}`, spec)
  await pause(WARM_UP_MS)
  const [begun, before, cpuBefore] = [performance.now(), await counted(), cpuMicros()]
  await pause(Number(seconds) * 1_000)
  const [elapsed, pushes, cpu] = [(performance.now() - begun) / 1_000, await counted() - before, cpuMicros() - cpuBefore]
  await call('DELETE', `/v1/triggers/${topic}`)
  return {
    concurrency,
    pushes_per_second: round(pushes / elapsed),
    server_cpu_micros_per_push: round(cpu / pushes),
    backlog_left: messages - pushes > 0
  }
}

async function light () {
  const topic = `light-${Date.now()}`
  const client = clientOf(url)
  let came
  const target = await listen(client, () => came(performance.now()))
  await call('POST', `/v1/triggers?trigger_id=${topic}`, { topic, group: GROUP, target })
  const times = []
  for (let number = 0; number < LIGHT; number += 1) {
    const arrival = new Promise((resolve) => { came = resolve })
    const begun = performance.now()
    await client.send(topic, payload)
    times.push(await arrival - begun)
  }
  await call('DELETE', `/v1/triggers/${topic}`)
  times.sort((left, right) => left - right)
  const at = (part) => round(times[Math.floor(times.length * part)])
  return { light: true, publish_to_handler_p50_ms: at(0.5), publish_to_handler_p99_ms: at(0.99) }
}

if (process.argv[2] === 'app') {
  let count = 0
  const own = await listen(clientOf(process.argv[3]), () => { count += 1 })
  process.on('message', () => process.send(count))
  process.send(own)
} else {
  const child = fork(process.argv[1], ['app', url])
  const [own] = await once(child, 'message')
  const app = { url: own, process: child }
  console.log(JSON.stringify(await light()))
  for (const concurrency of CONCURRENCIES) console.log(JSON.stringify(await backlog(app, concurrency)))
  child.kill()
  process.exit()
}
