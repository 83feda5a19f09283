// Signs requests.json with Node's crypto alone: node sign.mjs > vectors-node.json
import { createHmac, createPrivateKey, sign } from "node:crypto";
import { readFileSync } from "node:fs";

const given = JSON.parse(readFileSync(new URL("requests.json", import.meta.url), "utf8"));
const key = createPrivateKey({ key: Buffer.from(given.apiSecret, "base64"), format: "der", type: "pkcs8" });
const hmac = (secret, text, form) => createHmac("sha256", secret).update(text, "utf8").digest(form);
const webhookKey = (s) => (s.startsWith("whsec_") ? Buffer.from(s.slice(6), "base64") : Buffer.from(s, "utf8"));

const out = {
  signer: `Node ${process.version}, node:crypto`,
  command: "node sign.mjs > vectors-node.json",
  requests: given.requests.map((r) => ({
    name: r.name,
    signature: sign(null, Buffer.from([r.method, r.target, r.timestamp, r.signedBody].join("|"), "utf8"), key).toString("base64"),
  })),
  callbacks: given.callbacks.map((c) => ({
    name: c.name,
    callbackV1: "hmac-sha256-v1=" + hmac(Buffer.from(c.secret, "utf8"), c.body, "hex"),
    standardWebhook: "v1," + hmac(webhookKey(c.secret), `${c.id}.${c.timestamp}.${c.body}`, "base64"),
  })),
};
console.log(JSON.stringify(out, null, 1));
