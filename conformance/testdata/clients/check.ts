// Judges callbacks that come by lines, or reads a stream.
import { readFileSync } from 'node:fs';
import { Forged, verify } from './weft_callback.ts';
import type { Weft } from './weft_client.ts';
import { WeftSigner } from './weft_signer.ts';
import { events, StreamRefused } from './weft_stream.ts';

const [mode, baseUrl, path, idle] = process.argv.slice(2);
if (mode === 'callbacks') {
  for (const line of readFileSync(0, 'utf8').split('\n').slice(0, -1)) {
    const [secret, body, now, ...pairs] = line.split('\t');
    const headers: Record<string, string> = {};
    for (let i = 0; i < pairs.length; i += 2) headers[pairs[i] ?? ''] = pairs[i + 1] ?? '';
    const key = Buffer.from(secret ?? '', 'base64').toString(), raw = Buffer.from(body ?? '', 'base64');
    const given: [Headers | Record<string, string>, string][] = [[headers, 'node'], [new Headers(headers), 'fetch']];
    const said = await Promise.all(given.map(async ([form]) => {
      try {
        await verify(key, form, raw, { now: Number(now) });
        return 'genuine';
      } catch (caught) {
        return caught instanceof Forged ? 'forged' : String(caught);
      }
    }));
    console.log(said[0] === said[1] ? said[0] : said.join('-'));
  }
} else {
  const signer = await WeftSigner.create('ws_none', 'MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA');
  try {
    for await (const event of events<{ status: string; n: unknown }>(signer, baseUrl ?? '', path ?? '', { idleMs: Number(idle) })) {
      console.log(event.status, event.n);
    }
  } catch (caught) {
    if (!(caught instanceof StreamRefused)) throw caught;
    console.log('refused', caught.response.status);
  }
}

// Each of these is a mistake, and the compiler says so.
export async function mistakes(weft: Weft): Promise<void> {
  // @ts-expect-error there is no such path
  await weft.call('get', '/v1/sdk/nothing', {});
  // @ts-expect-error a component cannot be deleted
  await weft.call('delete', '/v1/sdk/components', {});
  // @ts-expect-error config is required
  await weft.call('post', '/v1/sdk/components', { body: { module: 'HASH', input: {} } });
  // @ts-expect-error the path has a part to fill
  await weft.call('get', '/v1/sdk/workflows/executions/{runId}', {});
  // @ts-expect-error there is no such field of a record
  void (await weft.call('post', '/v1/sdk/components', { body: { module: 'HASH', input: {}, config: {} } })).result;
  for await (const event of weft.stream('/v1/sdk/workflows/executions/{runId}/stream', { path: { runId: '' } })) {
    // @ts-expect-error a run has no such status
    if (event.status === 'RUNNING') return;
    // @ts-expect-error an event of a run has no module
    void event.module;
  }
}
