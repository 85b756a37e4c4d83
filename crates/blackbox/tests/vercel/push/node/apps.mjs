// Apps as people write them, each behind a real HTTP server: one for each of the two entrances of @vercel/queue.

import { once } from 'node:events'
import { createServer } from 'node:http'
import { Seen } from './seen.mjs'

async function bodyOf (request) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** `handleNodeCallback` below what a framework does for it: a body parsed by its type, `status` and `json`. */
function node (client, handler, options) {
  const callback = client.handleNodeCallback(handler, options)
  return async (request, response, raw) => {
    const isJson = request.headers['content-type']?.startsWith('application/json')
    request.body = isJson && raw.length > 0 ? JSON.parse(raw) : raw
    response.status = (status) => {
      response.statusCode = status
      return response
    }
    response.json = (value) => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(value))
    }
    await callback(request, response)
  }
}

/** `handleCallback`, with requests and answers of the Fetch API. */
function web (client, handler, options) {
  const callback = client.handleCallback(handler, options)
  return async (request, response, raw) => {
    const { method, headers, url } = request
    const body = raw.length > 0 ? raw : undefined
    const answer = await callback(new Request(new URL(url, 'http://app'), { method, headers, body }))
    response.writeHead(answer.status, Object.fromEntries(answer.headers))
    response.end(await answer.text())
  }
}

export const entrances = { node, web }

/**
 * A server that answers with `answer(request, response, body)`; it closes after the test. `requests` has what came,
 * `replies` what was said to it.
 */
export async function serve (t, answer, port = 0) {
  const [requests, replies] = [new Seen(), new Seen()]
  const server = createServer(async (request, response) => {
    const raw = await bodyOf(request)
    const { method, url, headers } = request
    const seen = { method, url, headers, raw, at: Date.now(), gone: false }
    response.on('close', () => {
      if (!response.writableFinished) {
        seen.gone = true
        requests.changed()
      }
    })
    const end = response.end.bind(response)
    response.end = (text = '') => {
      replies.push({ status: response.statusCode, text: String(text), headers })
      return end(text)
    }
    requests.push(seen)
    await answer(request, response, raw)
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${server.address().port}`, requests, replies }
}

/** An app of `entrance` with one handler; `handled` has the calls of the handler. */
export async function app (t, entrance, client, handler = () => {}, options = {}) {
  const handled = new Seen()
  const noting = (payload, metadata) => {
    handled.push({ payload, ...metadata, at: Date.now() })
    return handler(payload, metadata)
  }
  const served = await serve(t, entrances[entrance](client, noting, options))
  return { ...served, handled }
}
