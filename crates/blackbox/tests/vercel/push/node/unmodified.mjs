// An app as it runs on Vercel: it only calls the top-level functions of @vercel/queue. Run with the preload of
// sdk/vercel-preload; it tells its parent what it was given.

import { once } from 'node:events'
import { createServer } from 'node:http'
import { handleCallback, send } from '@vercel/queue'
import { entrances } from './apps.mjs'

async function handler (order, { messageId }) {
  process.send({ messageId, order })
  if (order.number > 0) await send('orders', { number: order.number - 1 })
}

const callback = entrances.web({ handleCallback }, handler)
const listener = createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  await callback(request, response, Buffer.concat(chunks))
  process.send({ replied: response.statusCode })
})
listener.listen(0, '127.0.0.1')
await once(listener, 'listening')
process.send({ port: listener.address().port })
