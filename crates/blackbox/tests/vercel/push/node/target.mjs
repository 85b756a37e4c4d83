// An app in a process of its own: node target.mjs PORT SERVER_URL. It tells its parent what it does, and does what that
// says: `{hold: true}` has handlers wait until `{hold: false}`.

import { once } from 'node:events'
import { createServer } from 'node:http'
import { QueueClient } from '@vercel/queue'
import { entrances } from './apps.mjs'

const [port, server] = process.argv.slice(2)
const resolveBaseUrl = () => new URL(server)
const client = new QueueClient({ region: 'iad1', token: 'any', deploymentId: null, resolveBaseUrl })
let held
const callback = entrances.web(client, async (payload, metadata) => {
  process.send({ begun: metadata.messageId, payload, deliveryCount: metadata.deliveryCount })
  await held
})
let release
process.on('message', ({ hold }) => {
  if (hold) held = new Promise((resolve) => { release = resolve })
  else release()
})
const listener = createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  await callback(request, response, Buffer.concat(chunks))
  process.send({ replied: response.statusCode })
})
listener.listen(Number(port), '127.0.0.1')
await once(listener, 'listening')
process.send({ port: listener.address().port })
