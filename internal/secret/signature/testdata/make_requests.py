#!/usr/bin/env python3
"""Writes requests.json: what the three signers sign. Fixed key, fixed times.

Every operation of the contract (part 4) is here with its target as sent on the
request line, then the 17 JSON samples, each as compact text and with white
space between its tokens. Both spellings are signed over the compact one.
"""
import base64, json, os

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = bytes(range(32))
PKCS8 = bytes.fromhex("302e020100300506032b657004220420") + SEED
ID = "0192f3a4-5b6c-7d8e-9f01-23456789abcd"

OPERATIONS = [
    ("executeComponent", "POST", "/v1/sdk/components", '{"module":"RANDOM_UUID","input":{},"config":{}}'),
    ("getComponentExecution", "GET", f"/v1/sdk/components/executions/{ID}", ""),
    ("streamComponentExecution", "GET", f"/v1/sdk/components/executions/{ID}/stream", ""),
    ("replayComponentCallback", "POST", f"/v1/sdk/components/executions/{ID}/replay-callback", ""),
    ("replayComponentCallback forced", "POST", f"/v1/sdk/components/executions/{ID}/replay-callback?force=true", "{}"),
    ("listCallbackAttempts", "GET", f"/v1/sdk/components/executions/{ID}/callback-attempts?limit=20", ""),
    ("listComponentExecutions", "GET", "/v1/sdk/components/executions?limit=100&cursor=eyJhIjoxfQ%3D%3D", ""),
    ("listComponents", "GET", "/v1/sdk/components", ""),
    ("getComponent", "GET", "/v1/sdk/components/RANDOM_UUID", ""),
    ("triggerWorkflow", "POST", f"/v1/sdk/workflows/{ID}", ""),
    ("getWorkflowRun", "GET", f"/v1/sdk/workflows/executions/{ID}", ""),
    ("streamWorkflowRun", "GET", f"/v1/sdk/workflows/executions/{ID}/stream?after=12", ""),
    ("updateWorkflowComponent", "POST", f"/v1/sdk/workflows/{ID}/components/fetch-1", '{"position":[10.5,-3]}'),
    ("deleteWorkflow", "DELETE", f"/v1/sdk/workflows/{ID}", ""),
    ("cancelWorkflowRun", "PUT", f"/v1/sdk/workflows/executions/{ID}/cancellation", '{"reason":"operator"}'),
]

SAMPLES = [
    ("decimal zero", '{"a":1.0}', '{ "a" : 1.0 }'),
    ("exponent", '{"a":1e3}', '{\n\t"a": 1e3\n}'),
    ("integer beyond 2^64", '{"a":10000000000000000000001}', '{"a": 10000000000000000000001}\n'),
    ("key order", '{"b":1,"a":2}', '{"b": 1, "a": 2}'),
    ("integer-like key order", '{"10":1,"9":2,"a":3}', '{ "10":1, "9":2, "a":3 }'),
    ("html characters", '{"a":"<&>"}', '{"a": "<&>"}'),
    ("escaped letter", '{"a":"\\u00e9"}', '{"a":\t"\\u00e9"}'),
    ("escaped slash", '{"a":"\\/"}', '{\r\n  "a": "\\/"\r\n}'),
    ("duplicate keys", '{"a":1,"a":2}', '{"a": 1, "a": 2}'),
    ("lone surrogate", '{"a":"\\ud800"}', '{"a": "\\ud800"}'),
    ("beyond float64", '{"a":1E400}', '{"a": 1E400 }'),
    ("small exponent", '{"a":0.1e-7}', '{"a" :0.1e-7}'),
    ("minus zero", '{"a":-0}', ' {"a":-0} '),
    ("raw letters", '{"a":"é 漢 \U0001F600"}', '{"a": "é 漢 \U0001F600"}'),
    ("line separators", '{"a":"\u2028\u2029"}', '{"a" : "\u2028\u2029"}'),
    ("white space in strings", '{"a b":" \\n\\t ","c":"\\" , \\\\"}', '{ "a b" : " \\n\\t " , "c" : "\\" , \\\\" }'),
    ("nested and empty", '{"a":[],"b":{},"c":[[1,2,{"d":null}],true,false]}',
     '{"a": [ ], "b": { }, "c": [[1, 2, {"d": null}], true, false]}'),
]

SECRETS = [("one byte", "k"), ("four kibibytes", "0123456789abcdef" * 256), ("non-ASCII", "clé-秘密-\U0001F511"),
           ("standard webhooks form", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]

out = {
    "apiSecret": base64.b64encode(PKCS8).decode(),
    "requests": [
        {"name": n, "method": m, "target": t, "timestamp": str(1795257600 + i), "body": b, "signedBody": b or "{}"}
        for i, (n, m, t, b) in enumerate(OPERATIONS)
    ] + [
        {"name": n + (", spaced" if sent != c else ""), "method": "POST", "target": "/v1/sdk/components",
         "timestamp": "1795257600", "body": sent, "signedBody": c}
        for n, c, s in SAMPLES for sent in (c, s)
    ],
    "callbacks": [
        {"name": n, "secret": s, "id": ID, "timestamp": 1795257600,
         "body": '{"id":"' + ID + '","output":{"text":"é\\n"},"totalUsage":1.25}'}
        for n, s in SECRETS
    ],
}
with open(os.path.join(HERE, "requests.json"), "w", encoding="utf-8") as f:
    json.dump(out, f, ensure_ascii=True, indent=1)
    f.write("\n")
