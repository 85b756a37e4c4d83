// Servers and targets that are killed and started again. Each test has a server of its own.

import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, test } from 'node:test'
import { app, entrances, serve } from './apps.mjs'
import { Millpond } from './millpond.mjs'
import { Seen, signal } from './seen.mjs'

const GROUP = 'workers'
const TARGET = fileURLToPath(new URL('target.mjs', import.meta.url))

async function started (t) {
  const millpond = await new Millpond().start()
  t.after(() => millpond.stop())
  return millpond
}

/** The app of target.mjs. */
class Target {
  events = new Seen()
  port = 0
  #child

  constructor (t, server) {
    this.server = server
    t.after(() => this.#child.kill('SIGKILL'))
  }

  async start () {
    this.#child = fork(TARGET, [this.port, this.server])
    this.#child.on('message', (event) => { this.events.push(event) })
    this.port = (await this.events.until((events) => events.findLast(({ port }) => port))).port
    return this
  }

  async kill () {
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    assert.deepEqual(await ended, [null, 'SIGKILL'])
    this.events.length = 0
  }

  hold (hold) {
    this.#child.send({ hold })
  }

  get url () {
    return `http://127.0.0.1:${this.port}/`
  }

  begun (count) {
    return this.events.until((events) => {
      const begun = events.filter(({ begun }) => begun)
      return begun.length >= count && begun
    })
  }
}

describe('what is killed and started again', { concurrency: 8 }, () => {
  test('a target that is down gets what was sent meanwhile, as if it came for the first time', async (t) => {
    const millpond = await started(t)
    const target = await new Target(t, millpond.url).start()
    await millpond.trigger('it', { topic: 'orders', group: GROUP, target: target.url })
    await millpond.client().send('orders', { number: 0 })
    await target.begun(1)
    await target.events.until((events) => events.some(({ replied }) => replied === 200))
    await target.kill()
    for (let number = 1; number <= 5; number += 1) await millpond.client().send('orders', { number })
    const { trouble } = await millpond.eventually('/v1/triggers/it', ({ state }) => state === 'down')
    assert.ok(trouble.error, 'it says why')
    await target.start()
    const begun = await target.begun(5)
    assert.deepEqual(begun.map(({ payload }) => payload.number).sort(), [1, 2, 3, 4, 5])
    assert.ok(begun.every(({ deliveryCount }) => deliveryCount === 1), JSON.stringify(begun))
    await millpond.eventually('/v1/triggers/it', ({ state, trouble }) => state === 'active' && trouble === null)
  })

  test('a target that dies at work gets the message again after the retry time', async (t) => {
    const millpond = await started(t)
    const target = await new Target(t, millpond.url).start()
    await millpond.trigger('it', { topic: 'orders', group: GROUP, target: target.url, retry_after: '1s' })
    target.hold(true)
    const { messageId } = await millpond.client().send('orders', {})
    await target.begun(1)
    await target.kill()
    await target.start()
    const [again] = await target.begun(1)
    assert.deepEqual([again.begun, again.deliveryCount], [messageId, 2])
  })

  test('a server that comes back knows what its handlers hold', async (t) => {
    const millpond = await started(t)
    const release = signal()
    const own = await app(t, 'web', millpond.client(), () => release.given)
    const spec = { topic: 'orders', group: GROUP, target: own.url, max_concurrency: 2 }
    await millpond.trigger('held', spec)
    const other = await app(t, 'web', millpond.client())
    await millpond.trigger('other', { topic: 'others', group: GROUP, target: other.url })
    const sent = new Set()
    for (let number = 0; number < 5; number += 1) sent.add((await millpond.client().send('orders', {})).messageId)
    await own.handled.count(2)
    await millpond.kill()
    await millpond.start()
    // Pushes go on, and of the first group there is none: its places are taken.
    for (let number = 0; number < 10; number += 1) await millpond.client().send('others', {})
    await other.handled.count(10)
    assert.equal(own.handled.length, 2)
    release.give()
    await own.handled.count(5)
    await own.handled.until((calls) => new Set(calls.map(({ messageId }) => messageId)).size === 5)
    await own.replies.count(5)
    assert.equal(own.handled.length, 5, 'each came once')
    for (const messageId of sent) assert.equal(await millpond.fate('orders', GROUP, messageId), 'already_processed')
  })

  test('a server that dies between announcing a message and handing it out announces it again', async (t) => {
    const millpond = await started(t)
    const callback = entrances.web(millpond.client(), () => {})
    const own = await serve(t, (...call) => own.requests.length === 1 ? undefined : callback(...call))
    await millpond.trigger('it', { topic: 'orders', group: GROUP, target: own.url, visibility_timeout: '3s' })
    const { messageId } = await millpond.client().send('orders', { filler: 'x'.repeat(300 * 1024) })
    await own.requests.count(1)
    await millpond.kill()
    await millpond.start()
    await own.replies.count(1)
    assert.equal(own.replies[0].status, 200)
    assert.equal(own.requests.length, 2)
    assert.equal(await millpond.fate('orders', GROUP, messageId), 'already_processed')
  })

  test('a server that is asked to stop while handlers are at work does, and they finish with its successor', async (t) => {
    const millpond = await started(t)
    const release = signal()
    const own = await app(t, 'web', millpond.client(), () => release.given)
    await millpond.trigger('it', { topic: 'orders', group: GROUP, target: own.url })
    const { messageId } = await millpond.client().send('orders', {})
    await own.handled.count(1)
    await millpond.stop()
    await millpond.start()
    release.give()
    await own.replies.count(1)
    assert.equal(await millpond.fate('orders', GROUP, messageId), 'already_processed')
    assert.equal(own.handled.length, 1)
  })
})
