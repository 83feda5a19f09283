#!/usr/bin/env python3
"""Signs requests.json with the library cryptography: python3 sign.py > vectors-python.json"""
import base64, hashlib, hmac, json, os, platform
import cryptography
from cryptography.hazmat.primitives.serialization import load_der_private_key

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "requests.json"), encoding="utf-8") as f:
    given = json.load(f)
key = load_der_private_key(base64.b64decode(given["apiSecret"]), password=None)


def webhook_key(secret):
    return base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode("utf-8")


def request(r):
    message = "|".join([r["method"], r["target"], r["timestamp"], r["signedBody"]]).encode("utf-8")
    return {"name": r["name"], "signature": base64.b64encode(key.sign(message)).decode()}


def callback(c):
    plain = hmac.new(c["secret"].encode("utf-8"), c["body"].encode("utf-8"), hashlib.sha256)
    text = f'{c["id"]}.{c["timestamp"]}.{c["body"]}'.encode("utf-8")
    standard = hmac.new(webhook_key(c["secret"]), text, hashlib.sha256)
    return {"name": c["name"], "callbackV1": "hmac-sha256-v1=" + plain.hexdigest(),
            "standardWebhook": "v1," + base64.b64encode(standard.digest()).decode()}


print(json.dumps({
    "signer": f"Python {platform.python_version()}, cryptography {cryptography.__version__}",
    "command": "python3 sign.py > vectors-python.json",
    "requests": [request(r) for r in given["requests"]],
    "callbacks": [callback(c) for c in given["callbacks"]],
}, indent=1))
