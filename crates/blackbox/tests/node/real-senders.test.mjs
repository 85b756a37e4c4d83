// CloudEvents' own SDK sends to a running server, in each mode of the HTTP binding, and reads back what is leased.
//
// What the SDK builds is sent as it is, by fetch. One exception: the SDK does not percent-encode header values, which
// the binding asks for and fetch insists on, so attributes beyond ASCII are encoded here on their way into headers.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, test } from 'node:test'
import { CloudEvent, HTTP } from 'cloudevents'

const server = process.env.MILLPOND_URL
const BATCH = 'application/cloudevents-batch+json'
const OWN = /^millpond/

const base = { source: 'https://shop.example/orders?x=1', type: 'order.placed', time: '2026-11-30T01:02:03.456Z' }
const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)

// `text` is the data as it must come back, byte for byte, where the SDK sends it as it is given.
const events = {
  'a JSON object': { datacontenttype: 'application/json', data: { order: 7, lines: [{ sku: 'a', count: 2 }], note: null } },
  'a JSON array': { datacontenttype: 'application/json', data: [1, 'two', [3.5], {}] },
  'JSON without a content type': { data: { default: true } },
  'JSON of a +json type': { datacontenttype: 'application/vnd.shop.order+json', data: { order: 8 } },
  'null data': { datacontenttype: 'application/json', data: null },
  'no data': {},
  'no data, with a content type': { datacontenttype: 'text/plain' },
  'text': { datacontenttype: 'text/plain', data: 'line one\nline "two"\ttabbed \\ {"not": "json"}' },
  'text beyond ASCII': { datacontenttype: 'text/plain; charset=utf-8', data: 'žluťoučký kůň 🐎 \u2028 日本語' },
  'XML': { datacontenttype: 'application/xml', data: '<order id="7"/>' },
  'bytes': { datacontenttype: 'application/octet-stream', data: bytes },
  'a picture': { datacontenttype: 'image/png', data: Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0xd, 0xa, 0x1a, 0xa, 0) },
  'every attribute': {
    datacontenttype: 'application/json', data: {}, subject: 'orders/7', dataschema: 'https://shop.example/order.json#v1'
  },
  'extensions': {
    data: 1.5, datacontenttype: 'application/json', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tenant: 'acme', x2: 'digits in the name', spaced: 'two  spaces inside'
  },
  'attributes that need encoding': {
    datacontenttype: 'application/json', data: { ok: true }, subject: 'č. 7 – 50 % "sleva" €🐎', tenant: 'Ünïcode, %41 %zz'
  },
  'an id that needs encoding': { id: 'objednávka č. 7/α', data: 'x', datacontenttype: 'text/plain' }
}

/** Header values as the binding wants them: space, quote, percent and all that is not printable ASCII encoded. */
function encoded (headers) {
  const encode = (value) => String(value).replace(/[^\x21-\x7e]|["%]/gu, (char) => encodeURIComponent(char))
  return Object.fromEntries(Object.entries(headers).map(([name, value]) =>
    [name, name.startsWith('ce-') ? encode(value) : value]))
}

const modes = {
  binary: (event) => {
    const { headers, body } = HTTP.binary(event)
    return { headers: encoded(headers), body }
  },
  structured: (event) => HTTP.structured(event),
  // The SDK reads batches but does not write them; its JSON of each event is what a batch is made of.
  batch: (event) => ({ headers: { 'content-type': BATCH }, body: `[${event}]` })
}

async function post (path, headers, body) {
  const response = await fetch(server + path, { method: 'POST', headers, body, redirect: 'error' })
  const text = await response.text()
  assert.equal(response.status, 200, text)
  return { text, headers: Object.fromEntries(response.headers) }
}

async function lease (queue, accept) {
  const headers = { 'content-type': 'application/json', accept }
  return post(`/v1/queues/${queue}:lease`, headers, JSON.stringify({ max_messages: 1, visibility_timeout: '60s' }))
}

const settle = (queue, verb, lease) =>
  post(`/v1/queues/${queue}:${verb}`, { 'content-type': 'application/json' }, JSON.stringify({ leases: [lease] }))

/** The data as bytes, and whether there is any. */
function dataOf (event) {
  if (event.data_base64 !== undefined) return Buffer.from(event.data_base64, 'base64').toString('latin1')
  return event.data
}

/** Attributes of an event of the SDK's, without data. */
function attributesOf (event) {
  const { data, data_base64: _, ...attributes } = JSON.parse(JSON.stringify(event))
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => !OWN.test(name)))
}

/** The same from our own form. */
function attributesOfNative (event) {
  const renamed = { event_time: 'time', data_content_type: 'datacontenttype', data_schema: 'dataschema' }
  const { data, data_base64: _, extensions = {}, ...rest } = event
  const pairs = Object.entries(rest).map(([name, value]) => [renamed[name] ?? name, value])
  return { specversion: '1.0', ...Object.fromEntries(pairs), ...extensions }
}

/** What the SDK states that the sender did not: in binary mode there is always a content type. */
function expected (event, mode) {
  const attributes = attributesOf(event)
  if (mode === 'binary' && attributes.datacontenttype === undefined) {
    attributes.datacontenttype = 'application/json; charset=utf-8'
  }
  return attributes
}

before(() => assert.ok(server, 'MILLPOND_URL says where the server is'))

for (const mode of Object.keys(modes)) {
  for (const [name, properties] of Object.entries(events)) {
    test(`${mode}: ${name}`, async () => {
      const queue = `q-${randomUUID()}`
      await post(`/v1/queues?queue_id=${queue}`, { 'content-type': 'application/json' }, '{}')
      const event = new CloudEvent({ id: randomUUID(), ...base, ...properties })
      const { headers, body } = modes[mode](event)
      await post(`/v1/queues/${queue}:send`, headers, body)

      const native = JSON.parse((await lease(queue, 'application/json')).text).messages[0]
      assert.deepEqual(attributesOfNative(native.event), expected(event, mode))
      assert.deepEqual(dataOf(native.event), dataOf(event))
      assert.equal('data' in native.event || 'data_base64' in native.event, event.data !== undefined, 'there is data')
      await settle(queue, 'nack', native.lease)

      const answer = await lease(queue, BATCH)
      assert.equal(answer.headers['content-type'], BATCH)
      const [received] = HTTP.toEvent({ headers: answer.headers, body: answer.text })
      assert.ok(received.validate())
      assert.deepEqual(attributesOf(received), expected(event, mode))
      assert.deepEqual(dataOf(received), dataOf(event))
      const { millpondmessageid, millpondgeneration, millponddeliveries } = received
      assert.deepEqual([millpondmessageid, millponddeliveries], [native.message_id, '2'])
      const held = { message_id: millpondmessageid, lease_generation: millpondgeneration }
      const { stale_leases: stale } = JSON.parse((await settle(queue, 'ack', held)).text)
      assert.deepEqual(stale, [])
    })
  }
}

// JSON that a parser would change: spaces, escapes, numbers beyond 2^53, 1.50, a repeated name.
const EXACT = '{ "n": 1.50,"big":12345678901234567890, "a":"\\u017e\\/", "a" : [ ] , "e": 1E2 }'

test('JSON comes back byte for byte', async () => {
  const queue = `q-${randomUUID()}`
  await post(`/v1/queues?queue_id=${queue}`, { 'content-type': 'application/json' }, '{}')
  const event = new CloudEvent({ ...base, datacontenttype: 'application/json', data: EXACT })
  const { headers, body } = HTTP.binary(event)
  assert.equal(body, EXACT, 'the SDK passes text on')
  await post(`/v1/queues/${queue}:send`, headers, body)
  const structured = `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":${EXACT}}`
  await post(`/v1/queues/${queue}:send`, { 'content-type': 'application/cloudevents+json' }, structured)
  for (const accept of ['application/json', BATCH]) {
    const { text } = await post(`/v1/queues/${queue}:lease`, { 'content-type': 'application/json', accept },
      JSON.stringify({ max_messages: 10, visibility_timeout: '60s' }))
    assert.equal(text.split(`"data":${EXACT}`).length, 3, text)
    if (accept !== BATCH) {
      for (const message of JSON.parse(text).messages) await settle(queue, 'nack', message.lease)
    }
  }
})
