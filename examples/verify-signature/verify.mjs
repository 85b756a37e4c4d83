// Takes pushes and verifies their signatures, with nothing but Node.
//
//   PUSH_SECRET=whsec_… PORT=3000 node verify.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const TOLERANCE_SECONDS = 5 * 60;

// `body` is the Buffer of what arrived, before anything has parsed it.
export function verify(secret, headers, body) {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  const signatures = headers["webhook-signature"];
  if (!id || !timestamp || !signatures) return false;
  // Written so that what is no number is refused as well.
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= TOLERANCE_SECONDS)) return false;
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  // While a secret is being replaced there are two signatures.
  return signatures.split(" ").some((signature) => {
    const [version, encoded] = signature.split(",");
    const given = Buffer.from(encoded ?? "", "base64");
    return version === "v1" && given.length === expected.length && timingSafeEqual(given, expected);
  });
}

if (process.argv[1] === import.meta.filename) {
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const isGenuine = verify(process.env.PUSH_SECRET, request.headers, Buffer.concat(chunks));
    response.writeHead(isGenuine ? 204 : 401).end();
  });
  server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
    console.log(`http://127.0.0.1:${server.address().port}/`);
  });
}
