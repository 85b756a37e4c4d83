// However often the server and the target of its pushes are killed: no more handlers are at work at once than the trigger
// says, every message is acknowledged, and none of which the acknowledgement was answered is pushed again.
//
// A handler counts from when it has its message until it asks to acknowledge it, fails, or its lease is over: which is
// within the time that the server has to count it.
//
// MILLPOND_PUSHES sets how many messages there are (10,000), MILLPOND_KILLS how often something is killed (24),
// MILLPOND_SEED when and what.

import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Millpond, directory } from './millpond.mjs'
import { random } from './random.mjs'
import { Seen } from './seen.mjs'

const MESSAGES = Number(process.env.MILLPOND_PUSHES ?? 10_000)
const KILLS = Number(process.env.MILLPOND_KILLS ?? 24)
const SEED = Number(process.env.MILLPOND_SEED ?? Date.now() % 2 ** 32)
const MOST_AT_ONCE = 4
const BATCH = 50
// One message in so many is large, and is announced only.
const LARGE = 200
const [TOPIC, GROUP] = ['orders', 'workers']
// Between two kills and at the end; a few seconds on most machines.
const WITHIN_SECONDS = 300
const TARGET = fileURLToPath(new URL('kills-target.mjs', import.meta.url))

console.log(`MILLPOND_SEED=${SEED} MILLPOND_PUSHES=${MESSAGES} MILLPOND_KILLS=${KILLS}`)
const draw = random(SEED)

/** The lines of all targets, read as they are written. */
class Journal {
  path = join(directory(), 'journal')
  lines = []
  begun = 0
  asked = new Set()
  acked = new Set()
  #at = 0
  #rest = Buffer.alloc(0)

  constructor () {
    writeFileSync(this.path, '')
    this.file = openSync(this.path, 'r')
  }

  read () {
    const chunk = Buffer.alloc(1 << 16)
    for (;;) {
      const length = readSync(this.file, chunk, 0, chunk.length, this.#at)
      if (length === 0) return
      this.#at += length
      const text = Buffer.concat([this.#rest, chunk.subarray(0, length)])
      const end = text.lastIndexOf('\n') + 1
      this.#rest = text.subarray(end)
      for (const line of String(text.subarray(0, end)).split('\n').slice(0, -1)) this.#take(JSON.parse(line))
    }
  }

  #take (line) {
    this.lines.push(line)
    if (line.what === 'begin') this.begun += 1
    if (line.what === 'ack') this.asked.add(line.message)
    if (line.what === 'acked') this.acked.add(line.message)
  }
}

const journal = new Journal()
const news = new Seen()
const target = { port: 0, generation: 0, ends: new Map() }

/** Waits until the journal is so. */
function until (condition) {
  return news.until(() => {
    journal.read()
    return condition()
  }, WITHIN_SECONDS)
}

async function startTarget (server) {
  target.generation += 1
  const words = [target.port, server, journal.path, target.generation, SEED + target.generation]
  target.child = fork(TARGET, words)
  const ready = new Promise((resolve) => {
    target.child.on('message', ({ port }) => {
      if (port) resolve(port)
      news.changed()
    })
  })
  target.port = await ready
}

async function killTarget (server) {
  const ended = once(target.child, 'exit')
  target.ends.set(target.generation, Number(process.hrtime.bigint() / 1_000n))
  target.child.kill('SIGKILL')
  await ended
  await startTarget(server)
}

/** Messages as they are sent: their ids. */
async function send (millpond) {
  const ids = new Set()
  for (let first = 0; first < MESSAGES; first += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, MESSAGES - first) }, (_, index) => first + index)
    const messages = numbers.map((number) => ({
      payload: { number, filler: 'x'.repeat(number % LARGE === 0 ? 300 * 1024 : 100) }
    }))
    for (const { messageId } of await millpond.client().experimental_sendBatch(TOPIC, messages)) ids.add(messageId)
  }
  assert.equal(ids.size, MESSAGES)
  return ids
}

/** Goes through what happened, in its order; how many were at work at most. */
function check (ids) {
  const lines = journal.lines.toSorted((left, right) => left.at - right.at)
  const [running, acked] = [new Map(), new Map()]
  let most = 0
  for (const { at, what, key, message, generation, until } of lines) {
    assert.ok(ids.has(message), `${message} was never sent`)
    const over = ([, other]) => other.until <= at || (target.ends.get(other.generation) ?? Infinity) <= at
    for (const [other] of [...running].filter(over)) running.delete(other)
    if (what === 'begin') {
      const dead = (target.ends.get(generation) ?? Infinity) <= at
      if (until <= at || dead) continue
      assert.ok(!acked.has(message), `${message} came again at ${at}, acknowledged at ${acked.get(message)}`)
      running.set(key, { until, generation })
      most = Math.max(most, running.size)
      assert.ok(running.size <= MOST_AT_ONCE, `${running.size} were at work at ${at}: ${[...running.keys()]}`)
    } else if (what === 'acked') {
      acked.set(message, acked.get(message) ?? at)
    } else {
      running.delete(key)
    }
  }
  return most
}

const millpond = await new Millpond().start()
const ids = await send(millpond)
await startTarget(millpond.url)
process.on('exit', () => target.child.kill('SIGKILL'))
await millpond.trigger('it', {
  topic: TOPIC,
  group: GROUP,
  target: `http://127.0.0.1:${target.port}/`,
  max_concurrency: MOST_AT_ONCE,
  retry_after: '1s',
  visibility_timeout: '2s'
})

const kills = Array.from({ length: KILLS }, () => Math.ceil(draw() * MESSAGES * 0.95)).sort((left, right) => left - right)
const killed = { server: 0, target: 0 }
for (const after of kills) {
  await until(() => journal.begun >= after)
  if (draw() < 0.5) {
    killed.server += 1
    await millpond.kill()
    await millpond.start()
  } else {
    killed.target += 1
    await killTarget(millpond.url)
  }
}
// What was asked for when the server died may have been done or not.
await until(() => journal.asked.size === MESSAGES)
const unknown = [...ids].filter((id) => !journal.acked.has(id))
for (const id of unknown) {
  while (!journal.acked.has(id) && await millpond.fate(TOPIC, GROUP, id) === 'not_available') {
    const read = journal.lines.length
    await until(() => journal.lines.length > read)
  }
}
for (const id of unknown) assert.equal(await millpond.fate(TOPIC, GROUP, id), 'already_processed')

const most = check(ids)
await millpond.stop()
target.child.kill('SIGKILL')
closeSync(journal.file)
const again = journal.begun - MESSAGES
console.log(JSON.stringify({ pushes: journal.begun, again, most, killed, answers_lost: unknown.length }))
assert.ok(most > 1, 'several are at work at once')
assert.ok(journal.begun >= MESSAGES)
console.log('all kept')
