"""Verifies callbacks of Weft. Python 3.9 or later, with nothing installed. This file stands
alone: copy it.

    verify(secret, request.headers, raw_body)  # raises Forged
    record = json.loads(raw_body)              # only now
"""
import base64
import binascii
import hashlib
import hmac
import time


class Forged(Exception):
    """The callback is not what Weft sent, or nobody can tell."""


def verify(secret, headers, body, tolerance=300, now=None):
    """Raises Forged unless the callback was signed with this callbackSecret.

    headers: name to value, or anything with get() such as those of http.server and WSGI
    frameworks. body: the raw bytes as they came; what was parsed and written again is
    something else. tolerance: how many seconds webhook-timestamp may be off.

    Weft signs twice: X-Svc-Signature over the body, and by Standard Webhooks over id, time and
    body. Each that is there has to be right, and the first has to be there. To refuse old
    deliveries that somebody sends again, insist on webhook-timestamp, and remember webhook-id."""
    headers = {name.lower(): value for name, value in headers.items()}
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not _same(headers.get("x-svc-signature", ""), "hmac-sha256-v1=" + digest):
        raise Forged("X-Svc-Signature is not that of this body under this secret")
    if "webhook-signature" not in headers:
        return
    id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 12):
        raise Forged("webhook-timestamp is not in seconds")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise Forged("webhook-timestamp is too far from now")
    mac = hmac.new(_key(secret), f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(mac).decode()
    if not any([_same(given, signature) for given in headers["webhook-signature"].split(" ")]):
        raise Forged("webhook-signature is not that of this delivery under this secret")


def _same(given, right):
    """Compares in a time that does not tell how much was right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), right.encode())


def _key(secret):
    """A secret written whsec_BASE64 counts as its bytes in Standard Webhooks."""
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret[6:], validate=True) or secret.encode()
        except binascii.Error:
            pass
    return secret.encode()
