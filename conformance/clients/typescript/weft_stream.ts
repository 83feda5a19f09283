// Reads event streams of Weft to their end, in Node 20 or later, Deno, Bun, workers and
// browsers, with nothing but weft_signer.ts beside it: copy both.
//
//   for await (const event of events<RunEvent>(signer, baseUrl, `/v1/sdk/workflows/executions/${runId}/stream`))
//     console.log(event.status);
//
// A connection that breaks, or is silent for longer than three heartbeats, is made again with
// Last-Event-ID, so that nothing is missed and nothing comes twice.

import type { WeftSigner } from './weft_signer.ts';

/** A message as an event stream has it. */
export interface Message {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

export interface StreamOptions {
  /** Only what came after it; '0' for all that a run has had. */
  readonly lastEventId?: string;
  /** The silence after which the connection counts as lost. */
  readonly idleMs?: number;
  /** How often in a row the connection may be lost without any event. */
  readonly attempts?: number;
}

/** The service refused the stream: 401, 404, ... */
export class StreamRefused extends Error {
  readonly response: Response;

  constructor(response: Response) {
    super(`the stream is refused with ${response.status}`);
    this.response = response;
  }
}

const final = ['COMPLETED', 'FAILED', 'CANCELED'];

/** The events of an execution or a run, to the one with a final status. */
export async function* events<Event extends { readonly status: string }>(
  signer: WeftSigner, baseUrl: string, path: string, options: StreamOptions = {},
): AsyncGenerator<Event, void, undefined> {
  const { idleMs = 45_000, attempts = 8 } = options;
  let lastEventId = options.lastEventId;
  for (let lost = 0; ; ) {
    let pause = Math.min(250 * 2 ** lost, 10_000);
    let fault: unknown;
    const connection = new AbortController();
    let open = false;
    try {
      const headers = await signer.headers('GET', path); // signed anew for each connection
      headers['Accept'] = 'text/event-stream';
      if (lastEventId !== undefined) headers['Last-Event-ID'] = lastEventId;
      const waiting = patience(idleMs, connection);
      const response = await waiting(fetch(baseUrl.replace(/\/$/, '') + path, { headers, signal: connection.signal }));
      if ([429, 502, 503, 504].includes(response.status)) {
        pause = Math.max(pause, seconds(response.headers.get('Retry-After')) * 1000);
        throw new Error(`the stream is refused with ${response.status}`);
      }
      if (response.status === 204) return; // lastEventId is the final event
      if (response.status !== 200 || response.body === null) throw new StreamRefused(response);
      open = true;
      for await (const message of messages(response.body, waiting)) {
        const event = JSON.parse(message.data) as Event;
        const last = final.includes(event.status);
        if (last || message.id === undefined || message.id !== lastEventId) {
          yield event;
          lost = 0;
          pause = 250;
        }
        if (last) return;
        lastEventId = message.id ?? lastEventId;
      }
      fault = new Error('the stream ended before the last event');
    } catch (caught) {
      if (caught instanceof StreamRefused || caught instanceof SyntaxError) throw caught;
      fault = caught;
    } finally {
      if (open) connection.abort();
    }
    if (++lost >= attempts) throw fault;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** Waits for what comes, and ends the connection when nothing does. */
type Waiting = <T>(coming: Promise<T>) => Promise<T>;

function patience(ms: number, connection: AbortController): Waiting {
  return async (coming) => {
    const timer = setTimeout(() => connection.abort(new Error('the stream is silent')), ms);
    try {
      return await coming;
    } finally {
      clearTimeout(timer);
    }
  };
}

/**
 * The messages of a stream. Comments (the heartbeat :ping) and messages without data are
 * passed over, and so is one that was cut off.
 */
async function* messages(body: ReadableStream<Uint8Array>, waiting: Waiting): AsyncGenerator<Message, void, undefined> {
  const reader = body.getReader();
  const utf8 = new TextDecoder();
  let id: string | undefined, event = 'message', data: string[] = [], rest = '';
  for (;;) {
    const { done, value } = await waiting(reader.read());
    if (done) return;
    const lines = (rest + utf8.decode(value, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const [, field, text] = /^([^:\r]*)(?:: ?(.*?))?\r?$/s.exec(line) ?? [];
      if (line.replace('\r', '') === '') {
        if (data.some((part) => part !== '')) yield { id, event, data: data.join('\n') };
        event = 'message';
        data = [];
      } else if (field === 'data') data.push(text ?? '');
      else if (field === 'event') event = text ?? '';
      else if (field === 'id' && !text?.includes('\0')) id = text ?? '';
    }
  }
}

/** What a Retry-After says, 0 for none. */
export function seconds(retryAfter: string | null): number {
  return /^\d+$/.test(retryAfter ?? '') ? Number(retryAfter) : 0;
}
