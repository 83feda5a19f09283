// All that one does with Weft, once each; prints what came of it as JSON.
//
//   node journey.js .weft/credentials.json
//
// tsc makes journey.js; from Node 22.18 on `node journey.ts` does without.
//
// The callback comes to a port of this machine: weft dev --allow-network 127.0.0.0/8.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Forged, verify } from './weft_callback.ts';
import { Weft, WeftError, type Schemas } from './weft_client.ts';

const secret = 'a secret of both, with an ä';

/** Executes a component; what is asked for is typed, what comes out of it is the component's own. */
function execute(weft: Weft, module: string, more: Partial<Schemas['ExecuteComponentRequest']> = {}) {
  return weft.call('post', '/v1/sdk/components', {
    header: { 'Idempotency-Key': crypto.randomUUID() },
    body: { module, input: {}, config: {}, ...more },
  });
}

const uuidOf = (output: unknown) => (output as { uuid: string }).uuid;

async function inline(weft: Weft) {
  const { id, status, output } = await execute(weft, 'RANDOM_UUID', { waitForMs: 15000 });
  return { id, status, uuid: uuidOf(output) };
}

async function polled(weft: Weft) {
  let record = await execute(weft, 'HASH', { input: { data: 'hällo', algorithm: 'sha256' } });
  const first = record.status;
  for (let pause = 20; record.status === 'CREATED' || record.status === 'EXECUTING'; pause = Math.min(pause * 2, 2000)) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    record = await weft.call('get', '/v1/sdk/components/executions/{executionId}', { path: { executionId: record.id } });
  }
  return { id: record.id, first, status: record.status, digest: (record.output as { digest: string }).digest };
}

async function streamed(weft: Weft) {
  const { id } = await execute(weft, 'RANDOM_UUID');
  const statuses: Schemas['ExecutionStatus'][] = [];
  let uuid = '';
  for await (const event of weft.stream('/v1/sdk/components/executions/{executionId}/stream', { path: { executionId: id } })) {
    statuses.push(event.status);
    if (event.status === 'COMPLETED') uuid = uuidOf(event.output);
  }
  return { id, statuses, uuid };
}

async function run(weft: Weft, workflowId: string) {
  const { runId } = await weft.call('post', '/v1/sdk/workflows/{workflowId}', { path: { workflowId } });
  const seqs: number[] = [], statuses: Schemas['RunStatus'][] = [];
  let totalUsage: number | undefined;
  for await (const event of weft.stream('/v1/sdk/workflows/executions/{runId}/stream', { path: { runId } }, { lastEventId: '0' })) {
    seqs.push(event.seq);
    statuses.push(event.status);
    totalUsage = event.output.totalUsage;
  }
  const record = await weft.call('get', '/v1/sdk/workflows/executions/{runId}', { path: { runId }, query: { stages: 'none' } });
  return { id: runId, seqs, statuses, totalUsage, prices: (record.output as { prices: string[] }).prices };
}

interface Delivery {
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A server that takes callbacks: 204 for what is genuine, 401 for anything else. */
async function receiver(came: (delivery: Delivery) => void) {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    try {
      await verify(secret, request.headers, body);
      response.writeHead(204).end();
      came({ headers: request.headers, body });
    } catch (caught) {
      response.writeHead(caught instanceof Forged ? 401 : 500).end();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/weft`, close: () => server.close() };
}

async function callback(weft: Weft) {
  let came: (delivery: Delivery) => void = () => {};
  const delivery = new Promise<Delivery>((resolve) => { came = resolve; });
  const { url, close } = await receiver((one) => came(one));
  const { id } = await execute(weft, 'RANDOM_UUID', { callbackUrl: url, callbackSecret: secret, callbackHeaders: { 'X-Order': '4711' } });
  const { headers, body } = await delivery;
  const record = JSON.parse(body.toString()) as Schemas['ComponentExecution'];
  const kept = Object.entries(headers).filter(([name]) => /^(x-|webhook-)/.test(name)) as [string, string][];
  const altered = await fetch(url, { method: 'POST', headers: kept, body: body.toString().replace('"COMPLETED"', '"FAILED"') });
  close();
  return { id, executionId: headers['x-svc-execution-id'], order: headers['x-order'], uuid: uuidOf(record.output), altered: altered.status };
}

async function refused(weft: Weft) {
  try {
    return await execute(weft, 'HASH', { input: { algorithm: 'sha256' } });
  } catch (caught) {
    if (!(caught instanceof WeftError)) throw caught;
    return { status: caught.status, code: caught.code, pointer: caught.problem.errors?.[0]?.pointer };
  }
}

const credentials = JSON.parse(readFileSync(process.argv[2] ?? '.weft/credentials.json', 'utf8')) as
  { baseUrl: string; apiKey: string; apiSecret: string; workflows: { fanOut: string } };
const weft = await Weft.create(credentials);
console.log(JSON.stringify({
  inline: await inline(weft),
  polled: await polled(weft),
  streamed: await streamed(weft),
  run: await run(weft, credentials.workflows.fanOut),
  callback: await callback(weft),
  refused: await refused(weft),
}));
process.exit();
