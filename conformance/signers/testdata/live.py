# Sends two signed requests and prints what is answered, a line each.
import json
import os
import urllib.request

import weft_signer

weft = weft_signer.WeftSigner(os.environ["WEFT_API_KEY"], os.environ["WEFT_API_SECRET"])
body = json.dumps({"module": "HASH", "input": {"data": "é"}, "config": {}, "waitForMs": 15000}).encode()
for method, path, sent in ("GET", "/v1/sdk/components?limit=1#x", b""), ("POST", "/v1/sdk/components", body):
    with urllib.request.urlopen(weft.request(os.environ["WEFT_URL"], method, path, sent)) as answer:
        print(answer.status, answer.read().decode().strip())
