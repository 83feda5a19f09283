// Signs a body under secrets of every kind with Node's crypto alone:
// node hmac.mjs > hmac.json
import { createHmac } from "node:crypto";

const body = '{"id":"0192f3a4-5b6c-7d8e-9f01-23456789abcd","output":{"text":"grüße, 世界","n":1.50}}';
const secrets = {
  "one byte": "k",
  "four kibibytes": "0123456789abcdef".repeat(256),
  "non-ASCII": "пароль-密碼-🔑",
  "white space": " a b\t",
  "looks like hex": "00ff00ff",
};
const signatures = Object.entries(secrets).map(([name, secret]) => ({
  name,
  secret,
  signature: "hmac-sha256-v1=" + createHmac("sha256", Buffer.from(secret, "utf8")).update(Buffer.from(body, "utf8")).digest("hex"),
}));
console.log(JSON.stringify({ signer: "Node " + process.version, body, signatures }, null, 1));
