// Signs a body with the libraries of senders. Standard input is {secret, key, body}; standard output
// has the headers of each preset. key is the secret of Standard Webhooks, whsec_ and base64.
import {readFileSync} from 'node:fs'
import {createRequire} from 'node:module'
import {sign} from '../../../tools/node_modules/@octokit/webhooks-methods/dist-node/index.js'

const {Webhook} = createRequire(new URL('../../../tools/package.json', import.meta.url))('standardwebhooks')
const {secret, key, body} = JSON.parse(readFileSync(0, 'utf8'))
const now = new Date()
console.log(JSON.stringify({
  github: {'X-Hub-Signature-256': await sign(secret, body), 'X-GitHub-Delivery': 'a'},
  standardWebhooks: {
    'webhook-id': 'msg_a', 'webhook-timestamp': String(Math.floor(now / 1000)), 'webhook-signature': new Webhook(key).sign('msg_a', now, body),
  },
}))
