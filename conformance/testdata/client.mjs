// A client of Weft written from the contract alone: Node's own modules, no
// dependency. It executes components in all four ways and checks what it gets.
// Settings come from the environment; it ends with 1 at the first surprise.
import { createHmac, createPrivateKey, sign, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import { once } from 'node:events'
import assert from 'node:assert/strict'

const { WEFT_URL, WEFT_KEY, WEFT_SECRET, CHAIN_URL, ACCOUNT, TOKEN, NATIVE_BALANCE, TOKEN_BALANCE } = process.env
const ZERO = '0x' + '0'.repeat(40)

// Contract 5.2: apiSecret is PKCS#8 DER in base64.
const key = createPrivateKey({ key: Buffer.from(WEFT_SECRET, 'base64'), format: 'der', type: 'pkcs8' })

function request(method, path, body) {
  const text = body === undefined ? '' : JSON.stringify(body)
  const timestamp = Math.floor(Date.now() / 1000).toString()
  const message = [method, path, timestamp, text || '{}'].join('|')
  const headers = {
    'X-Api-Key': WEFT_KEY,
    'X-Sdk-Timestamp': timestamp,
    'X-Sdk-Signature': sign(null, Buffer.from(message, 'utf8'), key).toString('base64'),
  }
  if (text) headers['Content-Type'] = 'application/json'
  return fetch(WEFT_URL + path, { method, headers, body: text || undefined })
}

async function json(method, path, body) {
  const answer = await request(method, path, body)
  const value = await answer.json()
  assert.equal(answer.status, 200, `${method} ${path}: ${JSON.stringify(value)}`)
  return value
}

const execute = (module, input, config, more = {}) =>
  json('POST', '/v1/sdk/components', { module, input, config, ...more })

const path = (id) => `/v1/sdk/components/executions/${id}`

async function poll(id) {
  for (let pause = 5; ; pause = Math.min(pause * 2, 250)) {
    const record = await json('GET', path(id))
    if (record.status === 'COMPLETED' || record.status === 'FAILED') return record
    await new Promise((wake) => setTimeout(wake, pause))
  }
}

// Contract 6.2 and decisions 4.5: the events of a stream, one by one.
async function* events(id) {
  const answer = await request('GET', path(id) + '/stream')
  assert.equal(answer.status, 200)
  assert.match(answer.headers.get('content-type'), /^text\/event-stream/)
  const text = new TextDecoder()
  let rest = ''
  for await (const chunk of answer.body) {
    rest += text.decode(chunk, { stream: true })
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      const lines = rest.slice(0, end).split('\n')
      const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart())
      const name = lines.find((line) => line.startsWith('event:'))?.slice(6).trim() ?? 'message'
      if (data.length) yield { name, ...JSON.parse(data.join('\n')) }
    }
  }
}

async function stream(id) {
  const all = []
  for await (const event of events(id)) all.push(event)
  const messages = all.filter((event) => event.name === 'message')
  assert.equal(messages.length, 1, 'onmessage hears one event')
  return messages[0]
}

// A server of our own, for callbacks and as an upstream.
async function serve(handle) {
  const server = createServer(async (request, response) => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    handle(request, Buffer.concat(chunks), response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() }
}

// Contract 5.3: the digest over the raw bytes, compared in constant time.
function genuine(header, secret, raw) {
  const given = Buffer.from(header.replace(/^hmac-sha256-v1=/, ''), 'hex')
  const own = createHmac('sha256', secret).update(raw).digest()
  return given.length === own.length && timingSafeEqual(given, own)
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const proofs = {
  async 'RANDOM_UUID inline'() {
    const record = await execute('RANDOM_UUID', {}, {}, { waitForMs: 15000 })
    assert.equal(record.status, 'COMPLETED')
    assert.equal(record.completed, true)
    assert.match(record.output.uuid, UUID)
  },
  async 'RANDOM_UUID by poll'() {
    const created = await execute('RANDOM_UUID', {}, {})
    assert.equal(created.status, 'CREATED')
    assert.equal(created.completed, false)
    assert.equal(created.output, null)
    const record = await poll(created.id)
    assert.match(record.output.uuid, UUID)
  },
  async 'RANDOM_UUID by stream'() {
    const { id } = await execute('RANDOM_UUID', {}, {})
    const event = await stream(id)
    assert.equal(event.status, 'COMPLETED')
    assert.match(event.output.uuid, UUID)
  },
  async 'RANDOM_UUID by callback'() {
    const secret = 'schlüssel-4711'
    let came
    const delivery = new Promise((resolve) => { came = resolve })
    const receiver = await serve((request, raw, response) => {
      response.writeHead(204).end()
      came({ headers: request.headers, method: request.method, raw })
    })
    const { id } = await execute('RANDOM_UUID', {}, {}, {
      callbackUrl: receiver.url + '/done', callbackSecret: secret, callbackHeaders: { 'X-Order': '4711' },
    })
    const { headers, method, raw } = await delivery
    receiver.close()
    assert.equal(method, 'POST')
    assert.equal(headers['x-svc-execution-id'], id)
    assert.equal(headers['x-order'], '4711')
    assert.ok(genuine(headers['x-svc-signature'], secret, raw), 'the HMAC does not verify')
    assert.ok(!genuine(headers['x-svc-signature'], secret, Buffer.concat([raw, Buffer.from(' ')])), 'the HMAC verifies anything')
    const record = JSON.parse(raw)
    assert.equal(record.status, 'COMPLETED')
    assert.match(record.output.uuid, UUID)
  },
  async 'API_CALL of a local server'() {
    const upstream = await serve((request, raw, response) => {
      response.writeHead(200, { 'Content-Type': 'application/json' })
      response.end(JSON.stringify({ method: request.method, url: request.url, sent: JSON.parse(raw), given: request.headers['x-given'] }))
    })
    const record = await execute('API_CALL', { headers: { 'X-Given': 'ä'.length + '' }, query: { q: 'a b' }, body: { n: 1 } },
      { apiUrl: upstream.url + '/price', method: 'POST' }, { waitForMs: 15000 })
    upstream.close()
    assert.equal(record.status, 'COMPLETED', JSON.stringify(record.error))
    assert.equal(record.output.status, 200)
    assert.equal(record.output.body.method, 'POST')
    assert.match(record.output.body.url, /^\/price\?q=a(\+|%20)b$/)
    assert.deepEqual(record.output.body.sent, { n: 1 })
    assert.equal(record.output.body.given, '1')
  },
  async 'GET_EVM_ACCOUNT_BALANCE native and token'() {
    for (const [tokenAddress, balance] of [[ZERO, NATIVE_BALANCE], [TOKEN, TOKEN_BALANCE]]) {
      const record = await execute('GET_EVM_ACCOUNT_BALANCE', { jsonRpcUrl: CHAIN_URL, tokenAddress, account: ACCOUNT }, {}, { waitForMs: 15000 })
      assert.equal(record.status, 'COMPLETED', JSON.stringify(record.error))
      assert.equal(record.output.balance, balance)
      assert.equal(record.totalUsage, 3)
    }
  },
  async 'WAIT_FOR_EVM_TRANSACTION mined later'() {
    const [from, to] = await rpc('eth_accounts')
    const transactionHash = await rpc('eth_sendTransaction', { from, to, value: '0x1' })
    const { id } = await execute('WAIT_FOR_EVM_TRANSACTION', { jsonRpcUrl: CHAIN_URL, transactionHash }, {})
    let last
    for await (const event of events(id)) {
      last = event
      if (event.name === 'progress' && event.status === 'EXECUTING') await rpc('evm_mine')
    }
    assert.equal(last.status, 'COMPLETED', JSON.stringify(last.error))
    assert.equal(last.output.status, 'success')
    assert.equal(last.output.receipt.transactionHash, transactionHash)
    assert.match(last.output.blockNumber, /^[1-9][0-9]*$/)
  },
}

async function rpc(method, ...params) {
  const answer = await fetch(CHAIN_URL, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { result, error } = await answer.json()
  assert.equal(error, undefined, method)
  return result
}

for (const [name, prove] of Object.entries(proofs)) {
  try {
    await prove()
    console.log('ok', name)
  } catch (fault) {
    console.log('not ok', name, fault)
    process.exitCode = 1
  }
}
process.exit()
