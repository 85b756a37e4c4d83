// The binary at MILLPOND_BIN: servers, each on a store of its own, and the command line. The store is a data directory, or
// a schema in the database that MILLPOND_TEST_STORE names.

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { PollingQueueClient, QueueClient } from '@vercel/queue'

// What the client reads from there would change where it sends to.
for (const name of ['NODE_ENV', 'VERCEL_DEPLOYMENT_ID', 'VERCEL_REGION']) delete process.env[name]

const binary = process.env.MILLPOND_BIN
assert.ok(binary, 'MILLPOND_BIN names the binary')
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('MILLPOND_')))
const run = promisify(execFile)
const database = process.env.MILLPOND_TEST_STORE?.match(/^postgres(ql)?:.*/)?.[0]
let stores = 0

/** A directory that goes with this process. */
export function directory () {
  const path = mkdtempSync(join(tmpdir(), 'millpond-push-'))
  process.on('exit', () => rmSync(path, { recursive: true, force: true }))
  return path
}

/** What the binary is told about a store that nobody else has. */
function newStore () {
  if (database === undefined) return ['--data-dir', join(directory(), 'data')]
  const schema = `millpond_test_${Date.now()}_${process.pid}_${stores++}`
  return ['--database-url', database, '--database-schema', schema]
}

export class Millpond {
  #store = newStore()
  #flags
  #child

  constructor (...flags) {
    this.#flags = flags
    process.on('exit', () => this.#child?.kill('SIGKILL'))
  }

  /** Starts it, the second time on the port of the first, and waits until it is ready. */
  async start () {
    const listen = this.url?.slice('http://'.length) ?? '127.0.0.1:0'
    const words = ['serve', '--listen', listen, ...this.#store, ...this.#flags]
    this.#child = spawn(binary, words, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
    const log = []
    createInterface({ input: this.#child.stderr }).on('line', (line) => { log.push(line) })
    for await (const line of createInterface({ input: this.#child.stdout })) {
      this.url = line.match(/^listening on (http:.*)$/)?.[1]
      assert.ok(this.url, line)
      return this
    }
    assert.fail(`it ended before it was ready: ${log.join('\n')}`)
  }

  get pid () {
    return this.#child.pid
  }

  /** SIGKILL, and waits for the end. */
  async kill () {
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    assert.deepEqual(await ended, [null, 'SIGKILL'])
  }

  /** SIGTERM, and waits for the end, which has to be exit code 0. */
  async stop () {
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    assert.deepEqual(await ended, [0, null])
  }

  /** A call of the native API; its answer. */
  async call (method, path, body) {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }

  /** Asks for a resource again and again until it is so; it. Each look lets the server run. */
  async eventually (path, holds) {
    const deadline = Date.now() + 60_000
    for (;;) {
      const resource = await this.call('GET', path)
      if (holds(resource)) return resource
      assert.ok(Date.now() < deadline, `not within a minute: ${holds}; it was ${JSON.stringify(resource)}`)
    }
  }

  trigger (id, spec) {
    return this.call('POST', `/v1/triggers?trigger_id=${id}`, spec)
  }

  /** A command against this server; what it prints. */
  async command (...words) {
    const { stdout } = await run(binary, [...words, '--server', this.url], { env: environment })
    return stdout
  }

  #options (options) {
    return { region: 'iad1', token: 'any', deploymentId: null, resolveBaseUrl: () => new URL(this.url), ...options }
  }

  client (options) {
    return new QueueClient(this.#options(options))
  }

  poller (options) {
    return new PollingQueueClient(this.#options(options))
  }

  /** What comes of taking one message by its id: `already_processed` once it has been acknowledged. */
  async fate (topic, group, messageId, options) {
    const { reason } = await this.poller(options).receive(topic, group, () => assert.fail('it was there'), { messageId })
    return reason
  }
}
