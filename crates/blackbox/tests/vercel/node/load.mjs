// What one process that sends and one that receives reach with Vercel's client, as fast as they can.
//
//   node load.mjs URL SERVER_PID SECONDS     both, each in a process of its own, and the server's processor time
//   node load.mjs URL send|receive SECONDS   one of them: prints how many messages it had

import { fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { PollingQueueClient } from '@vercel/queue'

const CALLS_AT_ONCE = 16
const WARM_UP_MS = 2_000
const TICKS_PER_SECOND = 100
const TOPIC = 'bench-node'
const payload = { filler: 'x'.repeat(240) }

const [url, what, seconds] = process.argv.slice(2)
const client = new PollingQueueClient({ region: 'iad1', token: 'any', deploymentId: null, resolveBaseUrl: () => new URL(url) })

async function send () {
  await client.send(TOPIC, payload)
  return 1
}

async function receive () {
  let count = 0
  await client.receive(TOPIC, 'workers', () => { count += 1 }, { limit: 10 })
  return count
}

/** Calls again and again, several at once; how many messages that was a second. */
async function run (call) {
  let count = 0
  let over = false
  const again = async () => {
    while (!over) {
      const messages = await call()
      count += messages
    }
  }
  const callers = Array.from({ length: CALLS_AT_ONCE }, again)
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
  await pause(WARM_UP_MS)
  const [begun, before] = [performance.now(), count]
  await pause(Number(seconds) * 1_000)
  const rate = (count - before) / ((performance.now() - begun) / 1_000)
  over = true
  await Promise.all(callers)
  return rate
}

function cpuMicros (pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) * (1_000_000 / TICKS_PER_SECOND)
}

function child (part) {
  const process_ = fork(process.argv[1], [url, part, seconds], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  return new Promise((resolve, reject) => {
    process_.on('message', resolve)
    process_.on('exit', (code) => code === 0 || reject(new Error(`${part} ended with ${code}`)))
  })
}

if (what === 'send' || what === 'receive') {
  const rate = await run(what === 'send' ? send : receive)
  process.send(rate)
  process.disconnect()
} else {
  const [begun, before] = [performance.now(), cpuMicros(what)]
  const [sent, received] = await Promise.all([child('send'), child('receive')])
  const elapsed = (performance.now() - begun) / 1_000
  const cpu = (cpuMicros(what) - before) / (received * elapsed)
  const round = (value) => Math.round(value * 10) / 10
  console.log(JSON.stringify({
    sent_per_second: round(sent), received_per_second: round(received), server_cpu_micros_per_message: round(cpu)
  }))
}
