// A typed client of Weft: every path, body, answer and event is that of openapi.yaml. Copy it
// with weft_signer.ts and weft_stream.ts, and make the types:
//
//   npx openapi-typescript@7 http://127.0.0.1:8080/openapi.json --default-non-nullable false --output weft_api.ts
//
//   const weft = await Weft.create(credentials);
//   const record = await weft.call('post', '/v1/sdk/components', { body: { module: 'RANDOM_UUID', input: {}, config: {} } });

import type { components, paths } from './weft_api.ts';
import { WeftSigner } from './weft_signer.ts';
import { events, seconds, type StreamOptions } from './weft_stream.ts';

export type Schemas = components['schemas'];

/** The streams, and what their events are. */
export interface Streams {
  '/v1/sdk/components/executions/{executionId}/stream': Schemas['ComponentExecutionEvent'];
  '/v1/sdk/workflows/executions/{runId}/stream': Schemas['RunEvent'];
}

type Path = keyof paths;
type Method<P extends Path> = { [M in keyof paths[P]]-?: paths[P][M] extends { responses: unknown } ? M & string : never }[keyof paths[P]];

/** What an operation takes: path, query, header and body. */
type Taken<Operation> =
  & (Operation extends { parameters: infer Parameters } ? Parameters : unknown)
  & (Operation extends { requestBody: { content: { 'application/json': infer Body } } } ? { body: Body }
    : Operation extends { requestBody?: { content: { 'application/json': infer Body } } } ? { body?: Body }
    : unknown);

/** What it answers with 200. */
type Answer<Operation> = Operation extends { responses: { 200: { content: { 'application/json': infer Body } } } } ? Body : never;

interface Call {
  path?: Readonly<Record<string, unknown>>;
  query?: Readonly<Record<string, unknown>>;
  header?: Readonly<Record<string, unknown>>;
  body?: unknown;
}

/**
 * An answer that is no success. `code` is stable; `problem` is all that the service said. The message
 * ends with the address that explains the causes.
 */
export class WeftError extends Error {
  readonly status: number;
  readonly code: string | undefined;
  readonly problem: Partial<Schemas['Problem']>;

  constructor(status: number, problem: Partial<Schemas['Problem']>, baseUrl = '') {
    super(`${status} ${problem.code}: ${problem.detail}${problem.docs ? ` See ${baseUrl}${problem.docs}` : ''}`);
    this.status = status;
    this.code = problem.code;
    this.problem = problem;
  }
}

export class Weft {
  readonly #baseUrl: string;
  readonly #signer: WeftSigner;

  private constructor(baseUrl: string, signer: WeftSigner) {
    this.#baseUrl = baseUrl.replace(/\/$/, '');
    this.#signer = signer;
  }

  /** The client of a credentials.json, as weft dev and weft keys create write it. */
  static async create(credentials: { baseUrl: string; apiKey: string; apiSecret: string }): Promise<Weft> {
    return new Weft(credentials.baseUrl, await WeftSigner.create(credentials.apiKey, credentials.apiSecret));
  }

  /**
   * Signs, sends and decodes. What a limit refuses is sent again once Retry-After is over, five times
   * in all. Throws WeftError. What was lost on the way may have been done: send it again with the
   * same Idempotency-Key.
   */
  async call<P extends Path, M extends Method<P>>(method: M, path: P, taken: Taken<paths[P][M]>): Promise<Answer<paths[P][M]>> {
    const call: Call = taken as Call;
    const target = filled(path, call);
    const body = call.body === undefined ? '' : JSON.stringify(call.body);
    for (let attempt = 1; ; attempt++) {
      const headers = await this.#signer.headers(method.toUpperCase(), target, body);
      for (const [name, value] of Object.entries(call.header ?? {})) if (value !== undefined) headers[name] = String(value);
      const answer = await fetch(this.#baseUrl + target, { method: method.toUpperCase(), headers, body: body === '' ? null : body });
      const ignored = answer.headers.get('Weft-Ignored');
      if (ignored) console.warn(`${method} ${target}: Weft does not know and ignored ${ignored}`);
      if (answer.ok) return (await answer.json()) as Answer<paths[P][M]>;
      // A 503 without Retry-After may have taken effect.
      const repeatable = answer.status === 429 || (answer.status === 503 && answer.headers.has('Retry-After'));
      if (!repeatable || attempt === 5) throw new WeftError(answer.status, await problemOf(answer), this.#baseUrl);
      await answer.body?.cancel();
      await new Promise((resolve) => setTimeout(resolve, 1000 * (seconds(answer.headers.get('Retry-After')) || 1)));
    }
  }

  /** The events of an execution or a run, to the last one. `lastEventId` '0': all that a run has had. */
  stream<P extends keyof Streams>(path: P, taken: Pick<Taken<paths[P]['get']>, 'path'>, options: StreamOptions = {}) {
    return events<Streams[P]>(this.#signer, this.#baseUrl, filled(path, taken as Call), options);
  }
}

/** The path as it is sent, and signed. */
function filled(path: string, call: Call): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(call.query ?? {})) if (value !== undefined) query.set(name, String(value));
  return path.replace(/{(\w+)}/g, (_, name: string) => encodeURIComponent(String(call.path?.[name]))) + (query.size > 0 ? `?${query}` : '');
}

async function problemOf(answer: Response): Promise<Partial<Schemas['Problem']>> {
  try {
    return (await answer.json()) as Partial<Schemas['Problem']>;
  } catch {
    return { detail: answer.statusText }; // a proxy on the way answers as it likes
  }
}
