# Judges callbacks that come by lines, or reads a stream.
import base64
import sys
import urllib.error

import weft_callback
import weft_signer
import weft_stream

if sys.argv[1] == "callbacks":
    for line in sys.stdin:
        secret, body, now, *headers = line.rstrip("\n").split("\t")
        pairs = dict(zip(headers[::2], headers[1::2]))
        try:
            weft_callback.verify(base64.b64decode(secret).decode(), pairs, base64.b64decode(body), now=int(now))
            print("genuine")
        except weft_callback.Forged:
            print("forged")
else:
    base_url, path, idle = sys.argv[2:]
    signer = weft_signer.WeftSigner("ws_none", "MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
    try:
        for event in weft_stream.events(signer, base_url, path, idle=int(idle) / 1000):
            print(event["status"], event["n"])
    except urllib.error.HTTPError as refused:
        print("refused", refused.code)
