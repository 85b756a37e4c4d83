// Signatures of pushes, verified by the package of Standard Webhooks.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Webhook, WebhookVerificationError } from 'standardwebhooks'
import { app } from './apps.mjs'
import { Millpond } from './millpond.mjs'

const millpond = new Millpond()
before(() => millpond.start())
after(() => millpond.stop())

async function secret (...words) {
  const text = await millpond.command('signing-secret', ...words, '--json')
  return text.match(/whsec_[A-Za-z0-9+/]+=*/)[0]
}

/** What is pushed when this is sent. */
async function pushed (t, topic, payload) {
  const own = await app(t, 'web', millpond.client())
  await millpond.trigger(topic, { topic, group: 'workers', target: own.url })
  await millpond.client().send(topic, payload)
  await own.replies.count(1)
  assert.equal(own.replies[0].status, 200)
  return own.requests[0]
}

const verify = (secret, { raw, headers }) => new Webhook(secret).verify(raw, headers)
const refused = (secret, push) => assert.throws(() => verify(secret, push), WebhookVerificationError)

describe('signatures', () => {
  test('verify, and only for what was signed', async (t) => {
    const own = await secret('show')
    const push = await pushed(t, 'plain', { order: 7, note: 'žluťoučký kůň 🐎' })
    assert.deepEqual(verify(own, push), { order: 7, note: 'žluťoučký kůň 🐎' })
    refused(own, { ...push, raw: Buffer.from(String(push.raw).replace('7', '8')) })
    refused(own, { ...push, headers: { ...push.headers, 'webhook-id': `${push.headers['webhook-id']}x` } })
    refused(`whsec_${Buffer.alloc(32, 1).toString('base64')}`, push)
  })

  test('of what is only announced verify as well', async (t) => {
    const push = await pushed(t, 'large', { filler: 'x'.repeat(300 * 1024) })
    assert.equal(push.raw.length, 0)
    verify(await secret('show'), push)
    refused(await secret('show'), { ...push, raw: Buffer.from('x') })
  })

  test('after a rotation verify with the new secret, and with the old one for a time', async (t) => {
    const old = await secret('show')
    await secret('rotate', '--yes')
    const next = await secret('show')
    assert.notEqual(next, old)
    const push = await pushed(t, 'rotated', { order: 7 })
    for (const own of [next, old]) assert.deepEqual(verify(own, push), { order: 7 })
  })

  test('verify with the same secrets after a kill', async (t) => {
    const own = await secret('show')
    await millpond.kill()
    await millpond.start()
    assert.equal(await secret('show'), own)
    assert.deepEqual(verify(own, await pushed(t, 'killed', { order: 7 })), { order: 7 })
  })
})
