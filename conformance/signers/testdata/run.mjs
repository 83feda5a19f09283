// Signs what comes by lines: method, path, timestamp and body in base64, with tabs between.
import { readFileSync } from 'node:fs';

import { WeftSigner } from './weft_signer.js';

const weft = await WeftSigner.create('ws_none', process.env.WEFT_API_SECRET);
for (const line of readFileSync(0, 'utf8').split('\n').slice(0, -1)) {
  const [method, path, timestamp, body] = line.split('\t');
  const bytes = Buffer.from(body, 'base64');
  const of = await weft.signature(method, path, timestamp, new Uint8Array(bytes));
  if (of !== (await weft.signature(method, path, timestamp, bytes.toString()))) throw new Error('text and bytes differ');
  console.log(of);
}
