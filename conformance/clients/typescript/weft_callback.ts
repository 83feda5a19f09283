// Verifies callbacks of Weft with WebCrypto: in Node 20 or later, Deno, Bun and workers, with
// nothing installed. This file stands alone: copy it.
//
//   await verify(secret, request.headers, rawBody); // throws Forged
//   const record = JSON.parse(rawBody);             // only now

/** The callback is not what Weft sent, or nobody can tell. */
export class Forged extends Error {}

/** Headers as fetch has them, or those of node:http. */
export type CallbackHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

const utf8 = new TextEncoder();

/**
 * Throws Forged unless the callback was signed with this callbackSecret. `body` is the raw bytes
 * as they came; what was parsed and written again is something else.
 *
 * Weft signs twice: X-Svc-Signature over the body, and by Standard Webhooks over id, time and
 * body. Each that is there has to be right, and the first has to be there. To refuse old
 * deliveries that somebody sends again, insist on webhook-timestamp, and remember webhook-id.
 */
export async function verify(
  secret: string, headers: CallbackHeaders, body: Uint8Array,
  { tolerance = 300, now = Date.now() / 1000 }: { tolerance?: number; now?: number } = {},
): Promise<void> {
  const [, hex] = /^hmac-sha256-v1=([0-9a-f]{64})$/.exec(value(headers, 'x-svc-signature') ?? '') ?? [];
  const digest = Uint8Array.from(hex?.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  if (!(await signed(utf8.encode(secret), digest, body))) throw new Forged('X-Svc-Signature is not that of this body under this secret');

  const signatures = value(headers, 'webhook-signature');
  if (signatures === undefined) return;
  const id = value(headers, 'webhook-id') ?? '', timestamp = value(headers, 'webhook-timestamp') ?? '';
  if (!/^\d{1,11}$/.test(timestamp)) throw new Forged('webhook-timestamp is not in seconds');
  if (Math.abs(now - Number(timestamp)) > tolerance) throw new Forged('webhook-timestamp is too far from now');
  const head = utf8.encode(`${id}.${timestamp}.`);
  const message = new Uint8Array(head.length + body.length);
  message.set(head);
  message.set(body, head.length);
  let right = false;
  for (const signature of signatures.split(' ')) {
    const [version, text] = signature.split(',', 2);
    if (version === 'v1' && (await signed(webhookKey(secret), fromBase64(text ?? ''), message))) right = true;
  }
  if (!right) throw new Forged('webhook-signature is not that of this delivery under this secret');
}

/** Compares in a time that does not tell how much was right: crypto.subtle.verify does. */
async function signed(key: Uint8Array<ArrayBuffer>, digest: Uint8Array<ArrayBuffer>, message: Uint8Array): Promise<boolean> {
  const hmac = { name: 'HMAC', hash: 'SHA-256' };
  return crypto.subtle.verify(hmac, await crypto.subtle.importKey('raw', key, hmac, false, ['verify']), digest, new Uint8Array(message));
}

function value(headers: CallbackHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const found = Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1];
  return typeof found === 'string' ? found : found?.join(', ');
}

/** A secret written whsec_BASE64 counts as its bytes in Standard Webhooks. */
function webhookKey(secret: string) {
  const bytes = secret.startsWith('whsec_') ? fromBase64(secret.slice('whsec_'.length)) : utf8.encode('');
  return bytes.length > 0 ? bytes : utf8.encode(secret);
}

/** The bytes of a text in standard base64, none if it is not. */
function fromBase64(text: string) {
  if (!/^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)) return new Uint8Array();
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
