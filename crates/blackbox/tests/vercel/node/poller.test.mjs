// Vercel's own client for Node, polling a running server at MILLPOND_URL.
//
// With ORACLE=1 the server is the one that ships in Vercel's Python package, and what it has not got or does otherwise
// is skipped by name. Each test has topics of its own. Time passes only by waiting for what the server makes visible.

import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import {
  BadRequestError, BufferTransport, PollingQueueClient, StreamTransport, TooManyRequestsError
} from '@vercel/queue'

const base = process.env.MILLPOND_URL
const onlyMillpond = process.env.ORACLE === '1' ? { skip: 'the reference server has not got this' } : {}
const GROUP = 'workers'
const DAY = 86_400
const WITHIN_MS = 20_000

// What the client reads from there would change where it sends to.
for (const name of ['NODE_ENV', 'VERCEL_DEPLOYMENT_ID', 'VERCEL_REGION']) delete process.env[name]

function clientOf (options = {}, prefix = '') {
  const resolveBaseUrl = () => new URL(base.replace(/\/$/, '') + prefix)
  return new PollingQueueClient({ region: 'iad1', token: 'any', deploymentId: null, resolveBaseUrl, ...options })
}

const client = clientOf()
const topicName = () => `t-${randomUUID()}`

/** Receives and acknowledges up to `limit` messages; what came. */
async function receive (topic, { queue = client, group = GROUP, read = (payload) => payload, ...options } = {}) {
  const messages = []
  const result = await queue.receive(topic, group, async (payload, metadata) => {
    messages.push({ payload: await read(payload), ...metadata })
  }, options)
  assert.deepEqual(result, messages.length > 0 ? { ok: true } : { ok: false, reason: 'empty' })
  return messages
}

/** The same, repeated until `count` messages came, which have to come one day. */
async function receiveAll (topic, count, options = {}) {
  const messages = []
  const deadline = Date.now() + WITHIN_MS
  for (;;) {
    messages.push(...await receive(topic, { limit: 10, ...options }))
    if (messages.length >= count) break
    assert.ok(Date.now() < deadline, `${messages.length} of ${count} messages came`)
    await pause(50)
  }
  assert.equal(messages.length, count)
  return messages
}

/** What comes of receiving one message by its id; a handler that is called acknowledges. */
async function byId (topic, messageId, { queue = client, group = GROUP, handler = () => {} } = {}) {
  const { ok, reason = 'ok', ...rest } = await queue.receive(topic, group, handler, { messageId })
  assert.equal(ok, reason === 'ok')
  assert.deepEqual(rest, ok ? {} : { messageId })
  return reason
}

/** Fails the next message of a topic with a retry directive; its metadata. */
async function fail (topic, directive) {
  let failed
  const result = await client.receive(topic, GROUP, (_, metadata) => {
    failed = metadata
    throw new Error('on purpose')
  }, { retry: () => directive })
  assert.deepEqual(result, { ok: true })
  return failed
}

async function bytesOf (stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const streamOf = (chunks) => new ReadableStream({
  async pull (controller) {
    const chunk = chunks.shift()
    if (chunk === undefined) controller.close()
    else controller.enqueue(chunk)
  }
})

const ids = (messages) => messages.map(({ messageId }) => messageId).sort()
const payloads = (messages) => messages.map(({ payload }) => payload).sort()

before(() => assert.ok(base, 'MILLPOND_URL says where the server is'))

describe('send', { concurrency: 8 }, () => {
  test('a message comes once, with what the server knows of it', async () => {
    const topic = topicName()
    const begun = Date.now()
    const { messageId } = await client.send(topic, { order: 7 })
    const answered = Date.now()
    const [message, ...others] = await receive(topic)
    assert.deepEqual(others, [])
    const { createdAt, expiresAt, ...rest } = message
    assert.deepEqual(rest, {
      payload: { order: 7 }, messageId, deliveryCount: 1, topicName: topic, consumerGroup: GROUP, region: 'iad1'
    })
    assert.ok(createdAt.getTime() >= begun && createdAt.getTime() <= answered, `${createdAt} is when it was sent`)
    assert.equal(expiresAt - createdAt, DAY * 1000)
    assert.deepEqual(await receive(topic), [])
    assert.equal(await byId(topic, messageId), 'already_processed')
  })

  const values = {
    'an object': { lines: [{ sku: 'a', count: 2 }], note: null },
    'an array': [1, 'two', [3.5], {}],
    'text beyond ASCII': 'žluťoučký kůň 🐎 \u2028 日本語',
    'empty text': '',
    'null': null,
    'a number': -1.5e-7,
    'what looks like a part': '\r\n--vqs-boundary\r\nVqs-Message-Id: no\r\n\r\n--vqs-boundary--'
  }
  for (const [name, value] of Object.entries(values)) {
    test(`JSON comes back: ${name}`, async () => {
      const topic = topicName()
      await client.send(topic, value)
      const [{ payload }] = await receive(topic)
      assert.deepEqual(payload, value)
    })
  }

  const blobs = {
    'every byte': Buffer.from(Uint8Array.from({ length: 256 }, (_, index) => index)),
    'no byte': Buffer.alloc(0),
    'line ends': Buffer.from('\r\n\r\n--\r\n'),
    'a megabyte': randomBytes(1024 * 1024)
  }
  for (const [name, blob] of Object.entries(blobs)) {
    test(`bytes come back: ${name}`, async () => {
      const topic = topicName()
      const queue = clientOf({ transport: new BufferTransport() })
      await queue.send(topic, blob)
      const [{ payload }] = await receive(topic, { queue })
      assert.ok(blob.equals(payload), `${payload.length} bytes for ${blob.length}`)
    })
  }

  const streams = {
    'many chunks': Array.from({ length: 64 }, () => randomBytes(10_000)),
    'one chunk': [Buffer.from('one')],
    'no chunk': []
  }
  for (const [name, chunks] of Object.entries(streams)) {
    test(`a stream comes back: ${name}`, async () => {
      const topic = topicName()
      const queue = clientOf({ transport: new StreamTransport() })
      await queue.send(topic, streamOf([...chunks]))
      const [{ payload }] = await receive(topic, { queue, read: bytesOf })
      assert.ok(Buffer.concat(chunks).equals(payload))
    })
  }

  test('headers of the sender change nothing', async () => {
    const topic = topicName()
    const queue = clientOf({ headers: { 'X-Tenant': 'acme' } })
    await queue.send(topic, 'x', { headers: { 'X-Trace': '7', 'Vqs-Delay-Seconds': '3600', Authorization: 'none' } })
    assert.deepEqual(payloads(await receive(topic, { queue })), ['x'])
  })

  test('a delay hides a message until it is over', async () => {
    const topic = topicName()
    await client.send(topic, 'late', { delaySeconds: 2 })
    await client.send(topic, 'now', { delaySeconds: 0 })
    assert.deepEqual(payloads(await receive(topic, { limit: 10 })), ['now'])
    const [{ payload, createdAt, deliveryCount }] = await receiveAll(topic, 1)
    assert.deepEqual([payload, deliveryCount], ['late', 1])
    assert.ok(Date.now() >= createdAt.getTime() + 2000)
  })

  test('a delayed message is not to be had by id', onlyMillpond, async () => {
    const topic = topicName()
    const { messageId } = await client.send(topic, 'late', { delaySeconds: 2 })
    assert.equal(await byId(topic, messageId), 'not_available')
    assert.deepEqual(ids(await receiveAll(topic, 1)), [messageId])
  })

  for (const retentionSeconds of [60, 7 * DAY]) {
    test(`a message is kept for ${retentionSeconds} s when that is asked for`, async () => {
      const topic = topicName()
      await client.send(topic, 'x', { retentionSeconds })
      const [{ createdAt, expiresAt }] = await receive(topic)
      assert.equal(expiresAt - createdAt, retentionSeconds * 1000)
    })
  }

  const refused = {
    'too short a retention': { retentionSeconds: 59 },
    'too long a retention': { retentionSeconds: 7 * DAY + 1 },
    'a retention of part of a second': { retentionSeconds: 60.5 },
    'a negative delay': { delaySeconds: -1 },
    'too long a delay': { delaySeconds: 7 * DAY + 1, retentionSeconds: 7 * DAY },
    'a delay of part of a second': { delaySeconds: 0.5 },
    'a delay beyond the retention': { delaySeconds: 61, retentionSeconds: 60 }
  }
  for (const [name, options] of Object.entries(refused)) {
    test(`refused: ${name}`, async () => {
      const topic = topicName()
      await assert.rejects(client.send(topic, 'x', options), BadRequestError)
      assert.deepEqual(await receive(topic), [])
    })
  }

  test('refused: too long an idempotency key', onlyMillpond, async () => {
    const topic = topicName()
    await assert.rejects(client.send(topic, 'x', { idempotencyKey: 'k'.repeat(257) }), BadRequestError)
    assert.deepEqual(await receive(topic), [])
  })

  for (const name of ['a b', 'a.b', 'kůň', '~']) {
    test(`refused: the name ${name}`, async () => {
      await assert.rejects(client.send(name, 'x'), BadRequestError)
      await assert.rejects(client.receive(topicName(), name, () => {}), BadRequestError)
    })
  }
})

describe('idempotency keys', { concurrency: 8 }, () => {
  test('a duplicate gets an id of its own and is never delivered', async () => {
    const topic = topicName()
    const idempotencyKey = 'k'.repeat(256)
    const first = await client.send(topic, 'x', { idempotencyKey })
    const second = await client.send(topic, 'x', { idempotencyKey })
    const other = await client.send(topic, 'x', { idempotencyKey: 'other' })
    assert.equal(new Set([first, second, other].map(({ messageId }) => messageId)).size, 3)
    assert.equal(await byId(topic, second.messageId), 'not_available')
    assert.deepEqual(ids(await receive(topic, { limit: 10 })), ids([first, other]))
    assert.deepEqual(await receive(topic, { limit: 10 }), [])
    assert.equal(await byId(topic, second.messageId), 'not_available')
  })

  test('a key stays used after its message is acknowledged', async () => {
    const topic = topicName()
    await client.send(topic, 'x', { idempotencyKey: 'k' })
    assert.equal((await receive(topic)).length, 1)
    await client.send(topic, 'x', { idempotencyKey: 'k' })
    assert.deepEqual(await receive(topic), [])
  })

  test('the payload does not matter', onlyMillpond, async () => {
    const topic = topicName()
    await client.send(topic, 'first', { idempotencyKey: 'k' })
    const second = await client.send(topic, 'second', { idempotencyKey: 'k' })
    assert.equal(await byId(topic, second.messageId), 'not_available')
    assert.deepEqual(payloads(await receive(topic, { limit: 10 })), ['first'])
  })

  test('topics and deployments have keys of their own', async () => {
    const [topic, another] = [topicName(), topicName()]
    for (const queue of [client, clientOf({ deploymentId: 'dpl_a' }), clientOf({ deploymentId: 'dpl_b' })]) {
      await queue.send(topic, 'x', { idempotencyKey: 'k' })
    }
    await client.send(another, 'x', { idempotencyKey: 'k' })
    assert.equal((await receive(topic, { limit: 10 })).length, 3)
    assert.equal((await receive(another, { limit: 10 })).length, 1)
  })
})

describe('receive', { concurrency: 8 }, () => {
  test('an unknown topic is empty', async () => {
    assert.deepEqual(await receive(topicName()), [])
  })

  test('one message comes unless more are asked for, and ten at most', async () => {
    const topic = topicName()
    const sent = await Promise.all(Array.from({ length: 13 }, (_, index) => client.send(topic, index)))
    const got = []
    for (const [limit, expected] of [[undefined, 1], [1, 1], [10, 10], [10, 1], [10, 0]]) {
      const messages = await receive(topic, limit === undefined ? {} : { limit })
      assert.equal(messages.length, expected)
      got.push(...messages)
    }
    assert.deepEqual(ids(got), ids(sent))
  })

  test('groups have their own copies', async () => {
    const topic = topicName()
    const sent = [await client.send(topic, 1), await client.send(topic, 2)]
    assert.deepEqual(ids(await receive(topic, { group: 'a', limit: 10 })), ids(sent))
    assert.equal(await byId(topic, sent[0].messageId, { group: 'b' }), 'ok')
    assert.equal(await byId(topic, sent[0].messageId, { group: 'b' }), 'already_processed')
    assert.deepEqual(ids(await receive(topic, { group: 'b', limit: 10 })), ids(sent.slice(1)))
    assert.deepEqual(ids(await receive(topic, { group: 'new_-Group', limit: 10 })), ids(sent))
  })

  test('a message is leased while its handler runs', async () => {
    const topic = topicName()
    const { messageId } = await client.send(topic, 'x')
    const result = await client.receive(topic, GROUP, async () => {
      assert.deepEqual(await receive(topic), [])
      assert.equal(await byId(topic, messageId), 'not_available')
      assert.equal(await byId(topic, messageId, { group: 'other' }), 'ok')
    })
    assert.deepEqual(result, { ok: true })
    assert.equal(await byId(topic, messageId), 'already_processed')
  })

  test('a message stays leased when its handler fails', async () => {
    const topic = topicName()
    const { messageId } = await client.send(topic, 'x')
    await assert.rejects(client.receive(topic, GROUP, () => { throw new Error('on purpose') }), /on purpose/)
    assert.deepEqual(await receive(topic), [])
    assert.equal(await byId(topic, messageId), 'not_available')
  })

  test('100 messages go through four pollers, each once', async () => {
    const topic = topicName()
    const sent = await Promise.all(Array.from({ length: 100 }, (_, index) => client.send(topic, index)))
    assert.equal(new Set(ids(sent)).size, 100)
    const got = []
    const deadline = Date.now() + WITHIN_MS
    await Promise.all(Array.from({ length: 4 }, async () => {
      while (got.length < 100 && Date.now() < deadline) got.push(...await receive(topic, { limit: 10 }))
    }))
    assert.deepEqual(ids(got), ids(sent))
    assert.ok(got.every(({ deliveryCount }) => deliveryCount === 1))
    assert.deepEqual(got.map(({ payload }) => payload).sort((a, b) => a - b), Array.from({ length: 100 }, (_, n) => n))
    assert.deepEqual(await receive(topic, { limit: 10 }), [])
  })

  test('a group that has as many in flight as it may is refused more', onlyMillpond, async () => {
    const topic = topicName()
    const careful = clientOf({ headers: { 'Vqs-Max-Concurrency': '1' } })
    await client.send(topic, 1)
    await client.send(topic, 2)
    const result = await careful.receive(topic, GROUP, async () => {
      await assert.rejects(receive(topic, { queue: careful }), TooManyRequestsError)
      assert.equal((await receive(topic, { queue: careful, group: 'other' })).length, 1)
    })
    assert.deepEqual(result, { ok: true })
    assert.equal((await receive(topic, { queue: careful })).length, 1)
  })
})

describe('receive by id', { concurrency: 8 }, () => {
  test('a message that is there', async () => {
    const topic = topicName()
    await client.send(topic, 'first')
    const { messageId } = await client.send(topic, 'second')
    let got
    assert.equal(await byId(topic, messageId, { handler: (payload, metadata) => { got = { payload, ...metadata } } }), 'ok')
    assert.deepEqual([got.payload, got.messageId, got.deliveryCount], ['second', messageId, 1])
    assert.deepEqual(payloads(await receive(topic, { limit: 10 })), ['first'])
  })

  test('one that is not there', async () => {
    const [topic, another] = [topicName(), topicName()]
    assert.equal(await byId(topic, 'no-such-message'), 'not_found')
    const { messageId } = await client.send(topic, 'x')
    assert.equal(await byId(another, messageId), 'not_found')
    assert.equal(await byId(topic, messageId), 'ok')
  })

  test('one that was rescheduled', async () => {
    const topic = topicName()
    const { messageId } = await client.send(topic, 'x')
    await fail(topic, { afterSeconds: 60 })
    assert.equal(await byId(topic, messageId), 'not_available')
  })
})

describe('retries', { concurrency: 8 }, () => {
  test('a failed message comes again after the time that was asked for, not before', async () => {
    const topic = topicName()
    const { messageId } = await client.send(topic, 'x')
    const begun = Date.now()
    assert.equal((await fail(topic, { afterSeconds: 1 })).deliveryCount, 1)
    const [message] = await receiveAll(topic, 1)
    assert.ok(Date.now() >= begun + 1000)
    assert.deepEqual([message.messageId, message.payload, message.deliveryCount], [messageId, 'x', 2])
  })

  test('after no time: at once', async () => {
    const topic = topicName()
    await client.send(topic, 'x')
    for (const count of [1, 2, 3]) assert.equal((await fail(topic, { afterSeconds: 0 })).deliveryCount, count)
    const [{ deliveryCount }] = await receive(topic)
    assert.equal(deliveryCount, 4)
  })

  test('a failed message can be acknowledged', async () => {
    const topic = topicName()
    const { messageId } = await client.send(topic, 'x')
    await fail(topic, { acknowledge: true })
    assert.equal(await byId(topic, messageId), 'already_processed')
  })

  test('the rest of a batch goes on after a failure with a directive', async () => {
    const topic = topicName()
    const sent = await Promise.all([1, 2, 3].map((value) => client.send(topic, value)))
    const seen = []
    const result = await client.receive(topic, GROUP, (payload) => {
      seen.push(payload)
      if (payload === 2) throw new Error('on purpose')
    }, { limit: 10, retry: () => ({ afterSeconds: 0 }) })
    assert.deepEqual([result, seen.sort()], [{ ok: true }, [1, 2, 3]])
    assert.deepEqual(ids(await receive(topic, { limit: 10 })), [sent[1].messageId])
  })

  test('messages that were never delivered go first', onlyMillpond, async () => {
    const topic = topicName()
    await client.send(topic, 'failed')
    await fail(topic, { afterSeconds: 0 })
    await client.send(topic, 'new')
    const order = []
    for (let n = 0; n < 2; n++) order.push(...(await receive(topic)).map(({ payload }) => payload))
    assert.deepEqual(order, ['new', 'failed'])
  })
})

describe('where a group starts', { concurrency: 8 }, () => {
  test('at the earliest message', async () => {
    const topic = topicName()
    const sent = [await client.send(topic, 1), await client.send(topic, 2)]
    assert.deepEqual(ids(await receive(topic, { limit: 10, cursorFallback: 'earliest' })), ids(sent))
  })

  test('at the latest', onlyMillpond, async () => {
    const topic = topicName()
    await client.send(topic, 'before')
    assert.deepEqual(await receive(topic, { limit: 10, cursorFallback: 'latest' }), [])
    await client.send(topic, 'after')
    assert.deepEqual(payloads(await receive(topic, { limit: 10, cursorFallback: 'latest' })), ['after'])
    assert.deepEqual(await receive(topic, { limit: 10, cursorFallback: 'earliest' }), [])
  })

  test('where it is, once it has started', async () => {
    const topic = topicName()
    const sent = [await client.send(topic, 1), await client.send(topic, 2)]
    const first = await receive(topic, { cursorFallback: 'earliest' })
    const second = await receive(topic, { cursorFallback: 'latest' })
    assert.deepEqual(ids([...first, ...second]), ids(sent))
  })
})

describe('deployments', { concurrency: 8 }, () => {
  const of = (deploymentId) => clientOf({ deploymentId })

  test('a pinned reader sees its own deployment, an unpinned one all', async () => {
    const topic = topicName()
    await client.send(topic, 'unpinned')
    await of('dpl_a').send(topic, 'a')
    await of('dpl_b').send(topic, 'b')
    assert.deepEqual(payloads(await receive(topic, { limit: 10, queue: of('dpl_a'), group: 'g1' })), ['a'])
    assert.deepEqual(payloads(await receive(topic, { limit: 10, queue: of('dpl_c'), group: 'g1' })), [])
    assert.deepEqual(payloads(await receive(topic, { limit: 10, group: 'g2' })), ['a', 'b', 'unpinned'])
  })

  test('pinned and unpinned readers of one group share what is done', async () => {
    const topic = topicName()
    await of('dpl_a').send(topic, 'a')
    await of('dpl_b').send(topic, 'b')
    assert.deepEqual(payloads(await receive(topic, { limit: 10, queue: of('dpl_a') })), ['a'])
    assert.deepEqual(payloads(await receive(topic, { limit: 10 })), ['b'])
    assert.deepEqual(await receive(topic, { limit: 10, queue: of('dpl_b') }), [])
  })

  test('by id, too', async () => {
    const topic = topicName()
    const { messageId } = await of('dpl_a').send(topic, 'a')
    const unpinned = await client.send(topic, 'unpinned')
    assert.equal(await byId(topic, messageId, { queue: of('dpl_b') }), 'not_found')
    assert.equal(await byId(topic, unpinned.messageId, { queue: of('dpl_a') }), 'not_found')
    assert.equal(await byId(topic, messageId, { queue: of('dpl_a') }), 'ok')
    assert.equal(await byId(topic, unpinned.messageId), 'ok')
  })

  test('the environment pins when the program says nothing', async () => {
    const topic = topicName()
    process.env.VERCEL_DEPLOYMENT_ID = 'dpl_env'
    const pinned = clientOf({ deploymentId: undefined })
    delete process.env.VERCEL_DEPLOYMENT_ID
    await client.send(topic, 'unpinned')
    await pinned.send(topic, 'env')
    assert.deepEqual(payloads(await receive(topic, { limit: 10, queue: pinned })), ['env'])
    assert.deepEqual(payloads(await receive(topic, { limit: 10, queue: of('dpl_env'), group: 'other' })), ['env'])
  })
})

describe('the base URL', { concurrency: 8 }, () => {
  for (const prefix of ['/a-prefix', '/with/three/parts', '/slash/']) {
    test(`may have the prefix ${prefix}`, async () => {
      const topic = topicName()
      const queue = clientOf({}, prefix)
      const { messageId } = await queue.send(topic, 'x')
      await queue.send(topic, 'y')
      assert.equal(await byId(topic, messageId, { queue }), 'ok')
      assert.deepEqual(payloads(await receive(topic, { queue, limit: 10 })), ['y'])
      assert.deepEqual(payloads(await receive(topic, { group: 'without', limit: 10 })), ['x', 'y'])
    })
  }
})

describe('experimental_sendBatch', { concurrency: 8 }, () => {
  const sent = (results) => results.filter(({ status }) => status === 'sent')

  test('answers for each message in order', onlyMillpond, async () => {
    const topic = topicName()
    const results = await client.experimental_sendBatch(topic, [
      { payload: 'a' },
      { payload: 'too short', retentionSeconds: 59 },
      { payload: 'b', idempotencyKey: 'k', headers: { 'X-Trace': '1' } },
      { payload: 'duplicate', idempotencyKey: 'k' },
      { payload: 'too late', delaySeconds: 61, retentionSeconds: 60 },
      { payload: 'c', retentionSeconds: 60 }
    ])
    const statuses = results.map(({ status, statusCode, retryable }) => [status, statusCode, retryable])
    const [good, bad] = [['sent', undefined, undefined], ['failed', 400, false]]
    assert.deepEqual(statuses, [good, bad, good, good, bad, good])
    for (const { error } of results.filter(({ status }) => status === 'failed')) assert.match(error, /\w/)
    assert.equal(new Set(ids(sent(results))).size, 4)
    assert.equal(await byId(topic, results[3].messageId), 'not_available')
    const messages = await receive(topic, { limit: 10 })
    assert.deepEqual(ids(messages), ids([results[0], results[2], results[5]]))
    assert.deepEqual(payloads(messages), ['a', 'b', 'c'])
    assert.deepEqual(await receive(topic), [])
  })

  test('takes all the options of send', onlyMillpond, async () => {
    const topic = topicName()
    const queue = clientOf({ deploymentId: 'dpl_a' })
    const results = await queue.experimental_sendBatch(topic, [
      { payload: 'late', delaySeconds: 2 },
      { payload: 'short', retentionSeconds: 60 }
    ])
    const [short, ...others] = await receive(topic, { limit: 10, queue })
    assert.deepEqual([others, short.messageId, short.payload], [[], results[1].messageId, 'short'])
    assert.equal(short.expiresAt - short.createdAt, 60_000)
    const [late] = await receiveAll(topic, 1, { queue })
    assert.deepEqual([late.messageId, late.payload], [results[0].messageId, 'late'])
    assert.ok(Date.now() >= late.createdAt.getTime() + 2000)
    assert.deepEqual(await receive(topic, { limit: 10, queue: clientOf({ deploymentId: 'dpl_b' }) }), [])
  })

  test('takes a hundred messages', onlyMillpond, async () => {
    const topic = topicName()
    const messages = Array.from({ length: 100 }, (_, payload) => ({ payload }))
    const results = await client.experimental_sendBatch(topic, messages)
    const got = await receiveAll(topic, 100)
    const payloadOf = new Map(got.map(({ messageId, payload }) => [messageId, payload]))
    assert.deepEqual(results.map(({ messageId }) => payloadOf.get(messageId)), messages.map(({ payload }) => payload))
  })

  test('takes bytes and streams of any length', onlyMillpond, async () => {
    const blobs = [Buffer.alloc(0), Buffer.from('\r\n--vqs-\r\n--'), randomBytes(300_000), Buffer.from('\r\n')]
    for (const [transport, payloadOf, read] of [
      [new BufferTransport(), (blob) => blob, (payload) => payload],
      [new StreamTransport(), (blob) => streamOf([blob.subarray(0, 7), blob.subarray(7)]), bytesOf]
    ]) {
      const topic = topicName()
      const queue = clientOf({ transport })
      const results = await queue.experimental_sendBatch(topic, blobs.map((blob) => ({ payload: payloadOf(blob) })))
      const got = new Map((await receive(topic, { queue, read, limit: 10 })).map((one) => [one.messageId, one.payload]))
      for (const [index, blob] of blobs.entries()) assert.ok(blob.equals(got.get(results[index].messageId)))
    }
  })

  test('refuses a bad name as a whole', onlyMillpond, async () => {
    await assert.rejects(client.experimental_sendBatch('a b', [{ payload: 'x' }]), BadRequestError)
  })
})
