// Sends two signed requests and prints what is answered, a line each.
import { WeftSigner } from './weft_signer.js';

const weft = await WeftSigner.create(process.env.WEFT_API_KEY, process.env.WEFT_API_SECRET);
const body = JSON.stringify({ module: 'HASH', input: { data: 'é' }, config: {}, waitForMs: 15000 });
for (const [method, path, sent] of [['GET', '/v1/sdk/components?limit=1#x', ''], ['POST', '/v1/sdk/components', body]]) {
  const answer = await weft.fetch(process.env.WEFT_URL, method, path, sent);
  console.log(answer.status, (await answer.text()).trim());
}
