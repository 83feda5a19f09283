// Runs the compiled client against a service: node main.mjs FOLDER.
import assert from 'node:assert/strict'
import { createPrivateKey, sign } from 'node:crypto'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const { WEFT_URL, WEFT_KEY, WEFT_SECRET } = process.env
const key = createPrivateKey({ key: Buffer.from(WEFT_SECRET, 'base64'), format: 'der', type: 'pkcs8' })

async function execute(module, input, config) {
  const path = '/v1/sdk/components', timestamp = String(Math.floor(Date.now() / 1000))
  const body = JSON.stringify({ module, input, config, waitForMs: 15000 })
  const answer = await fetch(WEFT_URL + path, {
    method: 'POST', body,
    headers: {
      'Content-Type': 'application/json', 'X-Api-Key': WEFT_KEY, 'X-Sdk-Timestamp': timestamp,
      'X-Sdk-Signature': sign(null, Buffer.from(['POST', path, timestamp, body].join('|')), key).toString('base64'),
    },
  })
  const record = await answer.json()
  assert.equal(record.status, 'COMPLETED', JSON.stringify(record))
  return record.output
}

const { use } = await import(pathToFileURL(join(process.argv[2], 'use.js')))
const got = await use(execute)
assert.match(got.uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-4/)
assert.equal(got.digest, '0x1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8') // keccak256("hello")
assert.match(got.hex, /^0x[0-9a-f]{8}$/)
assert.equal(got.half, '3')
console.log('served')
