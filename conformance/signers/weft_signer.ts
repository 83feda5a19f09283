// Signs requests to Weft with WebCrypto: in Node 20 or later, Deno, Bun, workers and
// browsers, with nothing installed. This file stands alone: copy it.
//
//   const weft = await WeftSigner.create(apiKey, apiSecret);
//   const answer = await weft.fetch(baseUrl, 'POST', '/v1/sdk/components',
//     JSON.stringify({ module: 'RANDOM_UUID', input: {}, config: {}, waitForMs: 5000 }));
//
// baseUrl may have a path, such as https://example.com/weft, if a proxy removes that path
// before the request reaches Weft. It is sent, but not signed.

const utf8 = new TextEncoder();

/** The bytes of a text in standard base64. */
function fromBase64(text: string) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Standard base64, with padding. */
function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/**
 * The bytes that are signed. `path` is everything after the host, the query included, as Weft
 * receives it; `timestamp` is whole seconds; an empty body counts as `{}`.
 */
export function message(method: string, path: string, timestamp: string, body: string | Uint8Array = '') {
  const head = utf8.encode(`${method}|${path}|${timestamp}|`);
  const sent = typeof body === 'string' ? utf8.encode(body) : body;
  const tail = sent.length > 0 ? sent : utf8.encode('{}');
  const all = new Uint8Array(head.length + tail.length);
  all.set(head);
  all.set(tail, head.length);
  return all;
}

export class WeftSigner {
  readonly apiKey: string;
  readonly #key: CryptoKey;

  private constructor(apiKey: string, key: CryptoKey) {
    this.apiKey = apiKey;
    this.#key = key;
  }

  /** `apiSecret` is base64 of the PKCS#8 form of an Ed25519 key. It cannot be read back. */
  static async create(apiKey: string, apiSecret: string): Promise<WeftSigner> {
    const key = await crypto.subtle.importKey('pkcs8', fromBase64(apiSecret), { name: 'Ed25519' }, false, ['sign']);
    return new WeftSigner(apiKey, key);
  }

  /** The value of X-Sdk-Signature. */
  async signature(method: string, path: string, timestamp: string, body: string | Uint8Array = ''): Promise<string> {
    const signed = await crypto.subtle.sign({ name: 'Ed25519' }, this.#key, message(method, path, timestamp, body));
    return toBase64(new Uint8Array(signed));
  }

  /** The headers of a request that is sent at once. */
  async headers(method: string, path: string, body: string | Uint8Array = ''): Promise<Record<string, string>> {
    const timestamp = String(Math.floor(Date.now() / 1000));
    const headers: Record<string, string> = {
      'X-Api-Key': this.apiKey,
      'X-Sdk-Timestamp': timestamp,
      'X-Sdk-Signature': await this.signature(method, path, timestamp, body),
    };
    if (body.length > 0) headers['Content-Type'] = 'application/json';
    return headers;
  }

  /** Signs and sends. The body is sent as it is: serialize it once, and give that text. */
  async fetch(baseUrl: string, method: string, path: string, body = ''): Promise<Response> {
    const base = baseUrl.replace(/\/$/, '');
    const prefix = new URL(base).pathname.replace(/\/$/, '');
    // URL writes the path as fetch will send it.
    const url = new URL(base + path);
    const headers = await this.headers(method, url.pathname.slice(prefix.length) + url.search, body);
    return fetch(url, { method, headers, body: body === '' ? null : body });
  }
}
