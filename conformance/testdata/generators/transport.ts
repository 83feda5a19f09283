// A fetch that signs what it sends, as a program of one's own would wrap it.
import { WeftSigner } from './weft_signer'

const { WEFT_URL = '', WEFT_KEY = '', WEFT_SECRET = '' } = process.env

export const baseUrl = WEFT_URL

/** Signs and sends. A path without a host is one of the service. */
export async function transport(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const request = new Request(input instanceof Request ? input : new URL(input, baseUrl), init)
  const url = new URL(request.url)
  const body = await request.text()
  const signer = await WeftSigner.create(WEFT_KEY, WEFT_SECRET)
  const signed = await signer.headers(request.method, url.pathname + url.search, body)
  const headers = new Headers(request.headers)
  for (const name of Object.keys(signed)) if (name !== 'Content-Type') headers.set(name, signed[name] ?? '')
  return fetch(url, { method: request.method, headers, body: body === '' ? null : body })
}
