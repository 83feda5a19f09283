# Signs what comes by lines: method, path, timestamp and body in base64, with tabs between.
import base64
import os
import sys

import weft_signer

weft = weft_signer.WeftSigner("ws_none", os.environ["WEFT_API_SECRET"])
for line in sys.stdin:
    method, path, timestamp, body = line.rstrip("\n").split("\t")
    print(weft.signature(method, path, timestamp, base64.b64decode(body)))
