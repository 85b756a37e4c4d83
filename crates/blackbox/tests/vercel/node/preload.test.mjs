// The preload of sdk/vercel-preload: an app that only calls the top-level functions of @vercel/queue, as it would on
// Vercel, run by another Node with the preload and the server at MILLPOND_URL.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { PollingQueueClient } from '@vercel/queue'

const base = process.env.MILLPOND_URL.replace(/\/$/, '')
const directory = fileURLToPath(new URL('.', import.meta.url))
const preload = fileURLToPath(new URL('../../../../../sdk/vercel-preload/millpond-vercel.mjs', import.meta.url))
const onlyMillpond = process.env.ORACLE === '1' ? { skip: 'the reference server has not got this' } : {}
const run = promisify(execFile)

/** Runs a program under the preload; what it logged. */
async function app (source, environment = {}) {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(VERCEL_|MILLPOND_|NODE_)/.test(name))
  const env = { ...Object.fromEntries(inherited), ...environment }
  const options = ['--import', preload, '--input-type=module', '--eval', source]
  const { stdout } = await run(process.execPath, options, { env, cwd: directory })
  return JSON.parse(stdout)
}

const sending = (topic) => `
  import { send } from '@vercel/queue'
  console.log(JSON.stringify(await send('${topic}', { order: 7 })))`

async function receive (topic, deploymentId = null, prefix = '') {
  const resolveBaseUrl = () => new URL(base + prefix)
  const client = new PollingQueueClient({ region: 'iad1', token: 'any', deploymentId, resolveBaseUrl })
  const messages = []
  await client.receive(topic, 'workers', (payload, { messageId }) => {
    messages.push([messageId, payload])
  }, { limit: 10 })
  return messages
}

/** What a program sends, as a server sees it that stands in for Millpond. */
async function seen (source, environment, path = '') {
  const requests = []
  const server = createServer((request, response) => {
    requests.push({ method: request.method, url: request.url, headers: request.headers })
    request.resume()
    response.writeHead(201, { 'Content-Type': 'application/json' }).end('{"messageId":"m"}')
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${server.address().port}`
  try {
    await app(source, { ...environment, MILLPOND_VERCEL_URL: url + path })
  } finally {
    server.close()
  }
  return requests
}

describe('the preload', { concurrency: 4 }, () => {
  test('send goes to the server', async () => {
    const topic = `t-${randomUUID()}`
    const { messageId } = await app(sending(topic), { MILLPOND_VERCEL_URL: base })
    assert.deepEqual(await receive(topic), [[messageId, { order: 7 }]])
  })

  test('the region finds its place in the URL', async () => {
    const topic = `t-${randomUUID()}`
    const environment = { MILLPOND_VERCEL_URL: `${base}/r/{region}/`, VERCEL_REGION: 'fra1' }
    const { messageId } = await app(sending(topic), environment)
    assert.deepEqual(await receive(topic, null, '/r/fra1'), [[messageId, { order: 7 }]])
    const [{ url }] = await seen(sending('t'), { VERCEL_REGION: 'fra1' }, '/r/{region}')
    assert.equal(url, '/r/fra1/api/v3/topic/t')
  })

  test('a deployment pins what is sent', async () => {
    const topic = `t-${randomUUID()}`
    const { messageId } = await app(sending(topic), { MILLPOND_VERCEL_URL: base, VERCEL_DEPLOYMENT_ID: 'dpl_a' })
    assert.deepEqual(await receive(topic, 'dpl_b'), [])
    assert.deepEqual(await receive(topic, 'dpl_a'), [[messageId, { order: 7 }]])
  })

  test('a batch goes to the server', onlyMillpond, async () => {
    const topic = `t-${randomUUID()}`
    const results = await app(`
      import { experimental_sendBatch } from '@vercel/queue'
      const messages = [{ payload: 1 }, { payload: 2 }]
      console.log(JSON.stringify(await experimental_sendBatch('${topic}', messages)))`, { MILLPOND_VERCEL_URL: base })
    const sent = results.map(({ messageId }, index) => [messageId, index + 1])
    assert.deepEqual((await receive(topic)).sort(), sent.sort())
  })

  test('what is missing is supplied, what is there is kept', async () => {
    const [bare] = await seen(sending('t'), {})
    assert.deepEqual([bare.method, bare.url], ['POST', '/api/v3/topic/t'])
    assert.equal(bare.headers['vqs-deployment-id'], undefined)
    assert.match(bare.headers.authorization, /^Bearer [\w-]+\.[\w-]+\.[\w-]+$/)
    const [, claims] = bare.headers.authorization.split('.')
    assert.ok(JSON.parse(Buffer.from(claims, 'base64url')).exp > Date.now() / 1000)

    const token = `e30.${Buffer.from('{"exp":253402300799,"own":true}').toString('base64url')}.s`
    const [given] = await seen(sending('t'), { VERCEL_OIDC_TOKEN: token, VERCEL_DEPLOYMENT_ID: 'dpl_a' })
    assert.equal(given.headers.authorization, `Bearer ${token}`)
    assert.equal(given.headers['vqs-deployment-id'], 'dpl_a')
  })

  test('a request object is redirected, other hosts are not', async () => {
    const requests = await seen(`
      const own = process.env.MILLPOND_VERCEL_URL
      const body = { method: 'POST', body: 'x', headers: { 'X-Own': '1' } }
      await fetch(new Request('https://sfo1.vercel-queue.com/api?x=1', body))
      await fetch(new URL('https://sfo1.vercel-queue.com'))
      await fetch(own + '/own', body)
      const refused = []
      for (const host of ['sfo1.vercel-queue.com.invalid', 'a.b.vercel-queue.com.invalid', 'vercel-queue.invalid']) {
        await fetch('https://' + host + '/').catch(() => refused.push(host))
      }
      console.log(JSON.stringify(refused))
      if (refused.length !== 3) process.exit(1)`, {})
    const got = requests.map(({ method, url, headers }) => [method, url, headers['x-own']])
    assert.deepEqual(got, [['POST', '/api?x=1', '1'], ['GET', '/', undefined], ['POST', '/own', '1']])
  })
})
