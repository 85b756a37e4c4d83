// Makes an unmodified app that uses @vercel/queue talk to a Millpond server: node --import ./millpond-vercel.mjs app.mjs
//
// What is asked of https://<region>.vercel-queue.com goes to MILLPOND_VERCEL_URL instead, in which {region} stands for
// the region. What the client wants from Vercel's environment before it sends anything is supplied when it is missing.

const HOST = /^https:\/\/([a-z]{2,5}[0-9]{1,2})\.vercel-queue\.com(?=[/?#]|$)/
const NO_DEPLOYMENT = 'millpond-none'

const { env } = process
const server = (env.MILLPOND_VERCEL_URL || 'http://127.0.0.1:8400').replace(/\/+$/, '')
const untouched = globalThis.fetch

env.VERCEL_REGION ||= 'iad1'
// The client reads the expiry and checks no signature.
const encoded = (part) => Buffer.from(JSON.stringify(part)).toString('base64url')
env.VERCEL_OIDC_TOKEN ||= `${encoded({ alg: 'none' })}.${encoded({ exp: 253402300799 })}.none`
// Without a deployment the client refuses to send, except in development. The name stays here: messages are not pinned.
if (env.NODE_ENV !== 'development') env.VERCEL_DEPLOYMENT_ID ||= NO_DEPLOYMENT

globalThis.fetch = function fetch (input, init) {
  const url = input instanceof Request ? input.url : String(input)
  const found = HOST.exec(url)
  if (found === null) return untouched.call(this, input, init)
  const target = server.replaceAll('{region}', found[1]) + url.slice(found[0].length)
  const request = input instanceof Request ? input : undefined
  const headers = new Headers(init?.headers ?? request?.headers)
  if (headers.get('vqs-deployment-id') === NO_DEPLOYMENT) headers.delete('vqs-deployment-id')
  return untouched.call(this, request ? new Request(target, request) : target, { ...init, headers })
}
