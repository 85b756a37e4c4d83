// Triggers that push to apps with the handlers of @vercel/queue: what each outcome of a handler does to its message.
//
// Time passes only by waiting for what the server sends: where some has to have passed, a second message is sent with
// that delay, and its push is the signal.

import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { BufferTransport } from '@vercel/queue'
import { app, entrances, serve } from './apps.mjs'
import { Millpond } from './millpond.mjs'
import { Seen, signal } from './seen.mjs'

const GROUP = 'workers'
const DAY = 86_400
const SUCCESS = { status: 200, text: '{"status":"success"}' }
const FAILURE = { status: 500, text: '{"error":"Failed to process queue message"}' }
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

const millpond = new Millpond()
before(() => millpond.start())
after(() => millpond.stop())

/** A trigger of its own for a topic of its own; the topic. */
async function triggered (target, spec = {}) {
  const topic = `t-${randomUUID()}`
  await millpond.trigger(topic, { topic, group: GROUP, target, ...spec })
  return topic
}

const fate = (topic, messageId, options) => millpond.fate(topic, GROUP, messageId, options)
const said = ({ replies }) => replies.map(({ status, text }) => ({ status, text }))

/** A lease call as any HTTP client makes it. */
async function settle (method, { headers }, body) {
  const [topic, handle] = [headers['ce-vqsqueuename'], headers['ce-vqsreceipthandle']]
  const url = `${millpond.url}/api/v3/topic/${topic}/consumer/${GROUP}/lease/${encodeURIComponent(handle)}`
  const json = { 'content-type': 'application/json' }
  const response = await fetch(url, { method, headers: body && json, body: body && JSON.stringify(body) })
  await response.arrayBuffer()
  return response.status
}

const reschedule = (request, visibilityTimeoutSeconds) => settle('PATCH', request, { visibilityTimeoutSeconds })

/** Waits until so many seconds have passed on the server: until a message that is sent with this delay is pushed. */
async function passed (t, seconds) {
  const clock = await serve(t, (request, response) => settle('DELETE', request).then(() => response.writeHead(204).end()))
  const topic = await triggered(clock.url)
  await millpond.client().send(topic, {}, { delaySeconds: seconds })
  await clock.requests.count(1)
}

for (const entrance of Object.keys(entrances)) {
  describe(`an app of the entrance for ${entrance}`, { concurrency: 16 }, () => {
    const client = () => millpond.client()

    test('gets the message with what the server knows of it, once', async (t) => {
      const own = await app(t, entrance, client())
      const topic = await triggered(own.url)
      const begun = Date.now()
      const { messageId } = await client().send(topic, { order: 7, note: 'žluťoučký kůň 🐎' })
      const answered = Date.now()
      await own.replies.count(1)
      assert.deepEqual(said(own), [SUCCESS])
      const [{ createdAt, expiresAt, region, at, ...rest }] = own.handled
      assert.deepEqual(rest, {
        payload: { order: 7, note: 'žluťoučký kůň 🐎' }, messageId, deliveryCount: 1, topicName: topic, consumerGroup: GROUP
      })
      assert.ok(createdAt.getTime() >= begun && createdAt.getTime() <= answered, `${createdAt} is when it was sent`)
      assert.equal(expiresAt - createdAt, DAY * 1000)
      assert.equal(await fate(topic, messageId), 'already_processed')
      assert.equal(own.requests.length, 1)
      const { method, headers } = own.requests[0]
      assert.equal(method, 'POST')
      assert.equal(headers['ce-type'], 'com.vercel.queue.v2beta')
      assert.equal(headers['ce-specversion'], '1.0')
      assert.equal(headers['content-type'], 'application/json')
      for (const name of ['createdat', 'expiresat', 'visibilitydeadline']) assert.match(headers[`ce-vqs${name}`], ISO)
      const lease = Date.parse(headers['ce-vqsvisibilitydeadline']) - at
      assert.ok(lease > 0 && lease <= 300_000, `the lease is of 300 s unless told: ${lease} ms`)
    })

    test('throws: the message comes again after the retry time', async (t) => {
      const own = await app(t, entrance, client(), (_, { deliveryCount }) => {
        if (deliveryCount < 3) throw new Error('on purpose')
      })
      const topic = await triggered(own.url, { retry_after: '1s' })
      const { messageId } = await client().send(topic, {})
      await own.replies.count(3)
      assert.deepEqual(said(own), [FAILURE, FAILURE, SUCCESS])
      assert.deepEqual(own.handled.map(({ deliveryCount }) => deliveryCount), [1, 2, 3])
      assert.ok(own.handled.every((call) => call.messageId === messageId))
      for (const [index, { at }] of own.handled.slice(1).entries()) assert.ok(at - own.handled[index].at >= 1_000)
      assert.equal(await fate(topic, messageId), 'already_processed')
    })

    test('asks to have it again later: so it comes, and the retry time does not count', async (t) => {
      const fails = (_, { deliveryCount }) => {
        if (deliveryCount === 1) throw new Error('on purpose')
      }
      const own = await app(t, entrance, client(), fails, { retry: () => ({ afterSeconds: 2 }) })
      const topic = await triggered(own.url, { retry_after: '3600s' })
      const { messageId } = await client().send(topic, {})
      await own.replies.count(2)
      assert.deepEqual(said(own), [SUCCESS, SUCCESS])
      const [first, second] = own.handled
      assert.equal(second.deliveryCount, 2)
      assert.ok(second.at - first.at >= 2_000, `${second.at - first.at} ms`)
      assert.equal(await fate(topic, messageId), 'already_processed')
    })

    test('throws and asks to have it acknowledged: it is', async (t) => {
      const fails = () => { throw new Error('on purpose') }
      const own = await app(t, entrance, client(), fails, { retry: () => ({ acknowledge: true }) })
      const topic = await triggered(own.url)
      const { messageId } = await client().send(topic, {})
      await own.replies.count(1)
      assert.deepEqual(said(own), [SUCCESS])
      assert.equal(await fate(topic, messageId), 'already_processed')
    })

    test('has lost its lease: it says skipped, and whoever has the message keeps it', async (t) => {
      const [again, first] = [signal(), signal()]
      const own = await app(t, entrance, client(), async (_, { deliveryCount }) => {
        if (deliveryCount === 1) {
          assert.equal(await reschedule(own.requests[0], 0), 200)
          await again.given
        } else {
          again.give()
          await first.given
        }
      })
      const topic = await triggered(own.url)
      const { messageId } = await client().send(topic, {})
      await own.replies.count(1)
      const skipped = { status: 'skipped', reason: 'not_available', messageId }
      assert.deepEqual(JSON.parse(own.replies[0].text), skipped)
      assert.equal(await fate(topic, messageId), 'not_available')
      first.give()
      await own.replies.count(2)
      assert.deepEqual(said(own)[1], SUCCESS)
      assert.equal(await fate(topic, messageId), 'already_processed')
      assert.equal(own.requests.length, 2)
    })

    test('works for longer than its lease and asks for more meanwhile: it is left alone', async (t) => {
      const own = await app(t, entrance, client(), async () => {
        assert.equal(await reschedule(own.requests[0], 60), 200)
        await passed(t, 5)
      })
      const topic = await triggered(own.url, { visibility_timeout: '3s' })
      const { messageId } = await client().send(topic, {})
      await own.replies.count(1)
      assert.deepEqual(said(own), [SUCCESS])
      assert.equal(own.requests[0].gone, false)
      assert.equal(own.requests.length, 1)
      assert.equal(await fate(topic, messageId), 'already_processed')
    })

    // Ten seconds is the soonest that the package renews.
    test('works for longer than its lease, which the package renews', async (t) => {
      const own = await app(t, entrance, client(), () => passed(t, 15))
      const topic = await triggered(own.url, { visibility_timeout: '13s' })
      const { messageId } = await client().send(topic, {})
      await own.replies.count(1)
      assert.deepEqual(said(own), [SUCCESS])
      assert.equal(own.requests.length, 1)
      assert.equal(await fate(topic, messageId), 'already_processed')
    })

    test('works for longer than its lease without a word: the message goes to another', async (t) => {
      const again = signal()
      const own = await app(t, entrance, client(), async (_, { deliveryCount }) => {
        if (deliveryCount === 1) await again.given
      })
      const topic = await triggered(own.url, { visibility_timeout: '2s', retry_after: '1s' })
      const { messageId } = await client().send(topic, {})
      await own.replies.count(1)
      assert.equal(own.handled[1].deliveryCount, 2)
      assert.equal(await fate(topic, messageId), 'already_processed')
      // The first has been hung up on, and what it says is heard by nobody.
      await own.requests.until(([first]) => first.gone)
      again.give()
    })

    test('is told of data that is large, and fetches it', async (t) => {
      const own = await app(t, entrance, client())
      const topic = await triggered(own.url)
      const filler = randomBytes(5 * 1024 * 1024 / 2).toString('hex')
      const { messageId } = await client().send(topic, { filler })
      await own.replies.count(1)
      assert.deepEqual(said(own), [SUCCESS])
      const [{ headers, raw }] = own.requests
      assert.deepEqual([raw.length, headers['ce-vqsreceipthandle']], [0, undefined])
      const [{ payload, deliveryCount }] = own.handled
      assert.ok(payload.filler === filler, 'it is the very payload')
      assert.equal(deliveryCount, 1)
      assert.equal(await fate(topic, messageId), 'already_processed')
    })

    test('is told of a message without data, and fetches it', async (t) => {
      const bytes = millpond.client({ transport: new BufferTransport() })
      const own = await app(t, entrance, bytes)
      const topic = await triggered(own.url)
      const { messageId } = await bytes.send(topic, Buffer.alloc(0))
      await own.replies.count(1)
      assert.deepEqual(said(own), [SUCCESS])
      assert.equal(own.handled[0].payload.length, 0)
      assert.equal(await fate(topic, messageId), 'already_processed')
    })

    test('fails after it fetched: the message comes again after the retry time', async (t) => {
      const own = await app(t, entrance, client(), (_, { deliveryCount }) => {
        if (deliveryCount === 1) throw new Error('on purpose')
      })
      const topic = await triggered(own.url, { retry_after: '1s' })
      const { messageId } = await client().send(topic, { filler: 'x'.repeat(300 * 1024) })
      await own.replies.count(2)
      assert.deepEqual(said(own), [FAILURE, SUCCESS])
      const [first, second] = own.handled
      assert.deepEqual([first.deliveryCount, second.deliveryCount], [1, 2])
      assert.ok(second.at - first.at >= 1_000)
      assert.equal(await fate(topic, messageId), 'already_processed')
    })

    test('is too late to fetch: it says skipped', async (t) => {
      const callback = entrances[entrance](client(), () => assert.fail('nothing is left to do'))
      let reason
      const own = await serve(t, async (request, response, raw) => {
        const topic = request.headers['ce-vqsqueuename']
        const messageId = request.headers['ce-vqsmessageid']
        // Somebody else is faster.
        const taken = await millpond.poller().receive(topic, GROUP, () => {}, { messageId })
        reason = taken.reason ?? 'ok'
        await callback(request, response, raw)
      })
      const topic = await triggered(own.url)
      const { messageId } = await client().send(topic, { filler: 'x'.repeat(300 * 1024) })
      await own.replies.count(1)
      assert.equal(reason, 'ok')
      assert.deepEqual(JSON.parse(own.replies[0].text), { status: 'skipped', reason: 'already_processed', messageId })
    })
  })
}

describe('a target of any kind', { concurrency: 16 }, () => {
  const client = () => millpond.client()

  test('bytes of any type come as they were sent', async (t) => {
    const bytes = millpond.client({ transport: new BufferTransport() })
    const own = await app(t, 'web', bytes)
    const topic = await triggered(own.url)
    const payloads = [Buffer.from(Uint8Array.from({ length: 256 }, (_, index) => index)), randomBytes(256 * 1024)]
    for (const payload of payloads) await bytes.send(topic, payload)
    await own.replies.count(2)
    assert.ok(own.requests.every(({ headers }) => headers['content-type'] === 'application/octet-stream'))
    assert.ok(own.requests.every(({ headers }) => headers['ce-vqsreceipthandle'] !== undefined), 'they come inline')
    const came = own.handled.toSorted((left, right) => left.payload.length - right.payload.length)
    assert.ok(payloads.every((payload, index) => payload.equals(came[index].payload)))
  })

  test('one byte more than 256 KiB is announced, and all that fits comes along', async (t) => {
    const bytes = millpond.client({ transport: new BufferTransport() })
    const own = await app(t, 'web', bytes)
    const topic = await triggered(own.url)
    await bytes.send(topic, Buffer.alloc(256 * 1024 + 1))
    await own.replies.count(1)
    assert.equal(own.requests[0].headers['ce-vqsreceipthandle'], undefined)
    assert.deepEqual(said(own), [SUCCESS])
  })

  test('Retry-After of a failed call counts before the retry time', async (t) => {
    const own = await serve(t, (request, response) => {
      if (own.requests.length === 1) response.writeHead(503, { 'retry-after': '2' }).end()
      else settle('DELETE', request).then(() => response.writeHead(204).end())
    })
    const topic = await triggered(own.url, { retry_after: '3600s' })
    const { messageId } = await client().send(topic, {})
    await own.replies.count(2)
    const [first, second] = own.requests
    assert.ok(second.at - first.at >= 2_000, `${second.at - first.at} ms`)
    assert.equal(await fate(topic, messageId), 'already_processed')
  })

  test('a redirect is a failure and is not followed', async (t) => {
    const elsewhere = await serve(t, (_, response) => response.writeHead(204).end())
    const own = await serve(t, (request, response) => {
      if (own.requests.length === 1) response.writeHead(307, { location: elsewhere.url }).end()
      else settle('DELETE', request).then(() => response.writeHead(204).end())
    })
    const topic = await triggered(own.url, { retry_after: '1s' })
    await client().send(topic, {})
    await own.replies.count(2)
    assert.equal(own.requests[1].headers['ce-vqsdeliverycount'], '2')
    assert.equal(elsewhere.requests.length, 0)
  })

  test('a connection that the target closes after its reply is none of the next message', async (t) => {
    const own = await serve(t, (request, response) => settle('DELETE', request).then(() => {
      response.writeHead(204).end()
      request.socket.end()
    }))
    const topic = await triggered(own.url, { retry_after: '3600s' })
    for (let number = 1; number <= 20; number += 1) {
      await client().send(topic, { number })
      await own.requests.count(number)
    }
    assert.ok(own.requests.every(({ headers }) => headers['ce-vqsdeliverycount'] === '1'))
  })

  test('a call that says 2xx and settles nothing leaves the lease as it is', async (t) => {
    const own = await serve(t, (_, response) => response.writeHead(204).end())
    const topic = await triggered(own.url, { visibility_timeout: '4s', retry_after: '1s' })
    const { messageId } = await client().send(topic, {})
    await own.replies.count(1)
    assert.equal(await fate(topic, messageId), 'not_available')
    const [first, second] = await own.requests.count(2).then(() => own.requests)
    assert.ok(second.at >= Date.parse(first.headers['ce-vqsvisibilitydeadline']), 'not before the lease was over')
    assert.equal(await settle('DELETE', first), 409)
    assert.equal(await settle('DELETE', second), 204)
  })

  test('a call that ends with the work handed over is acknowledged later', async (t) => {
    const own = await serve(t, (_, response) => response.writeHead(204).end())
    const topic = await triggered(own.url, { max_concurrency: 1 })
    const sent = await Promise.all([client().send(topic, {}), client().send(topic, {})])
    await own.replies.count(1)
    // It holds its place until then, which shows when the clock has moved on.
    await passed(t, 1)
    assert.equal(own.requests.length, 1)
    assert.equal(await settle('DELETE', own.requests[0]), 204)
    await own.requests.count(2)
    assert.equal(await settle('DELETE', own.requests[1]), 204)
    for (const { messageId } of sent) assert.equal(await fate(topic, messageId), 'already_processed')
  })

  test('a message that says "again in n seconds" takes no place meanwhile', async (t) => {
    const own = await serve(t, async (request, response) => {
      if (own.requests.length === 1) assert.equal(await reschedule(request, 3600), 200)
      else assert.equal(await settle('DELETE', request), 204)
      response.writeHead(200).end()
    })
    const topic = await triggered(own.url, { max_concurrency: 1 })
    await client().send(topic, { number: 1 })
    await client().send(topic, { number: 2 })
    await own.replies.count(2)
    assert.equal(new Set(own.requests.map(({ headers }) => headers['ce-vqsmessageid'])).size, 2)
  })

  test('a message that always fails holds up no other, although one is the most at once', async (t) => {
    const own = await app(t, 'node', client(), ({ poison }) => {
      if (poison) throw new Error('on purpose')
    })
    const topic = await triggered(own.url, { max_concurrency: 1, retry_after: '1s' })
    const { messageId } = await client().send(topic, { poison: true })
    await own.handled.count(1)
    for (let number = 0; number < 20; number += 1) await client().send(topic, { number })
    await own.handled.until((calls) => calls.filter(({ payload }) => !payload.poison).length === 20)
    await own.handled.until((calls) => calls.some((call) => call.messageId === messageId && call.deliveryCount >= 3))
  })

  test('what is out of deliveries goes to the dead-letter queue with its data', async (t) => {
    const queue = `dead-${randomUUID()}`
    await millpond.call('POST', `/v1/queues?queue_id=${queue}`, {})
    const own = await app(t, 'node', client(), () => { throw new Error('on purpose') })
    const spec = { max_deliveries: 2, retry_after: '1s', dead_letter_queue: queue }
    const topic = await triggered(own.url, spec)
    const payload = { order: 7, note: 'žluťoučký kůň' }
    const { messageId } = await client().send(topic, payload)
    const { messages: [dead] } = await millpond.call('POST', `/v1/queues/${queue}:lease`, { wait: '20s' })
    assert.deepEqual(dead.event.data, payload)
    assert.equal(own.requests.length, 2)
    assert.equal(await fate(topic, messageId), 'already_processed')
  })

  test('what is out of deliveries is gone without a dead-letter queue', async (t) => {
    const own = await app(t, 'node', client(), ({ poison }) => {
      if (poison) throw new Error('on purpose')
    })
    const topic = await triggered(own.url, { max_deliveries: 2, retry_after: '1s' })
    const { messageId } = await client().send(topic, { poison: true })
    await own.replies.count(2)
    await passed(t, 2)
    assert.equal(own.requests.length, 2)
    assert.equal(await fate(topic, messageId), 'already_processed')
  })

  test('topics of a pattern are pushed from, those made later too', async (t) => {
    const own = await app(t, 'node', client())
    const stem = `s-${randomUUID()}-`
    await client().send(`${stem}a`, { topic: 'a' })
    await millpond.trigger(`${stem}all`, { topic: `${stem}*`, group: GROUP, target: own.url })
    await client().send(`${stem}b`, { topic: 'b' })
    await client().send(stem.slice(0, -1), { topic: 'another' })
    await own.handled.count(2)
    await passed(t, 1)
    assert.deepEqual(own.handled.map(({ topicName, payload }) => [topicName, payload.topic]).sort(), [
      [`${stem}a`, 'a'], [`${stem}b`, 'b']
    ])
  })

  test('a message goes to each group once', async (t) => {
    const topic = `t-${randomUUID()}`
    const apps = await Promise.all(['billing', 'mail', 'search'].map(async (group) => {
      const own = await app(t, 'node', client())
      await millpond.trigger(`${topic}-${group}`, { topic, group, target: own.url })
      return own
    }))
    const { messageId } = await client().send(topic, {})
    for (const own of apps) await own.replies.count(1)
    assert.ok(apps.every(({ handled }) => handled.length === 1 && handled[0].messageId === messageId))
  })

  test('a trigger that is deleted pushes no more, and one that is made again goes on', async (t) => {
    const own = await app(t, 'node', client())
    const topic = await triggered(own.url)
    await client().send(topic, { number: 1 })
    await own.replies.count(1)
    await millpond.call('DELETE', `/v1/triggers/${topic}`)
    await client().send(topic, { number: 2 })
    await passed(t, 1)
    assert.equal(own.requests.length, 1)
    await millpond.trigger(topic, { topic, group: GROUP, target: own.url })
    await own.replies.count(2)
    assert.deepEqual(own.handled.map(({ payload: { number } }) => number), [1, 2])
  })

  test('the last pushes are told, with what came of them', async (t) => {
    const own = await app(t, 'node', client(), (_, { deliveryCount }) => {
      if (deliveryCount === 1) throw new Error('on purpose')
    })
    const topic = await triggered(own.url, { retry_after: '1s' })
    const { messageId } = await client().send(topic, {})
    await own.replies.count(2)
    // A push is told of when its call has ended, which is a moment after the app said so.
    const bothEnded = ({ last, pushes }) => last.length === 2 && pushes.in_flight === '0'
    const { last, pushes } = await millpond.eventually(`/v1/triggers/${topic}/pushes`, bothEnded)
    const told = last.map(({ message_id, delivery_count, inline, outcome, status }) =>
      ({ message_id, delivery_count, inline, outcome, status }))
    assert.deepEqual(told, [
      { message_id: messageId, delivery_count: 2, inline: true, outcome: 'succeeded', status: 200 },
      { message_id: messageId, delivery_count: 1, inline: true, outcome: 'failed', status: 500 }
    ])
    assert.deepEqual([pushes.total, pushes.succeeded, pushes.failed], ['2', '1', '1'])
    const { target, state } = await millpond.call('GET', `/v1/triggers/${topic}`)
    assert.deepEqual([target, state], [own.url, 'active'])
  })

  test('what the handler sends on arrives', async (t) => {
    const last = await app(t, 'node', client())
    const second = await triggered(last.url)
    const first = await app(t, 'node', client(), ({ number }) => client().send(second, { number: number + 1 }))
    const topic = await triggered(first.url)
    await client().send(topic, { number: 1 })
    await last.handled.count(1)
    assert.deepEqual(last.handled[0].payload, { number: 2 })
  })

  test('a thousand messages are pushed, each once', async (t) => {
    const own = await app(t, 'web', client())
    const topic = await triggered(own.url, { max_concurrency: 16 })
    const sent = new Seen()
    for (let batch = 0; batch < 10; batch += 1) {
      const messages = Array.from({ length: 100 }, (_, number) => ({ payload: { number: batch * 100 + number } }))
      sent.push(...await client().experimental_sendBatch(topic, messages))
    }
    await own.replies.count(1_000)
    assert.ok(said(own).every(({ text }) => text === SUCCESS.text))
    assert.equal(new Set(own.handled.map(({ messageId }) => messageId)).size, 1_000)
    const numbers = own.handled.map(({ payload }) => payload.number).sort((left, right) => left - right)
    assert.deepEqual(numbers, [...Array(1_000).keys()])
  })
})
