"""Signs requests to Weft. Python 3.9 or later. This file stands alone: copy it.

    weft = WeftSigner(api_key, api_secret)
    body = json.dumps({"module": "RANDOM_UUID", "input": {}, "config": {}}).encode()
    answer = urllib.request.urlopen(weft.request(base_url, "POST", "/v1/sdk/components", body))

base_url may have a path, such as https://example.com/weft, if a proxy removes that path before
the request reaches Weft. It is sent, but not signed.

It signs with the package `cryptography` or PyNaCl if one of them is installed. Otherwise it
computes Ed25519 (RFC 8032) in Python. This is slow and takes a time that depends on the secret:
use it for scripts, not for a service whose timing others can measure.
"""
import base64
import hashlib
import time
import urllib.parse
import urllib.request


def message(method, path, timestamp, body=b""):
    """Returns the bytes to sign. path is everything after the host, including the query, as
    Weft receives it. timestamp is in whole seconds. An empty body counts as {}."""
    return f"{method}|{path}|{timestamp}|".encode() + (body or b"{}")


class WeftSigner:
    def __init__(self, api_key, api_secret, ed25519=None):
        """api_secret is an Ed25519 key in PKCS#8, encoded in base64. Its last 32 bytes are the
        seed. ed25519 is a function that returns a signing function for a seed. The default is
        the fastest one that is installed."""
        der = base64.b64decode(api_secret, validate=True)
        if len(der) < 48:
            raise ValueError("the apiSecret is not a PKCS#8 key")
        self.api_key = api_key
        self._sign = (ed25519 or best())(der[-32:])

    def signature(self, method, path, timestamp, body=b""):
        """Returns the value of X-Sdk-Signature."""
        return base64.b64encode(self._sign(message(method, path, timestamp, body))).decode()

    def headers(self, method, path, body=b""):
        """Returns the headers of a request. Send it at once: the timestamp expires."""
        timestamp = str(int(time.time()))
        headers = {
            "X-Api-Key": self.api_key,
            "X-Sdk-Timestamp": timestamp,
            "X-Sdk-Signature": self.signature(method, path, timestamp, body),
        }
        if body:
            headers["Content-Type"] = "application/json"
        return headers

    def request(self, base_url, method, path, body=b""):
        """Returns a signed request for urllib. It sends the body unchanged: serialize it once."""
        base_url = base_url.rstrip("/")
        request = urllib.request.Request(base_url + path, data=body or None, method=method)
        received = request.selector[len(urllib.parse.urlsplit(base_url).path):]  # the path as urllib sends it
        for name, value in self.headers(method, received, body).items():
            request.add_header(name, value)
        return request


def best():
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        return lambda seed: Ed25519PrivateKey.from_private_bytes(seed).sign
    except ImportError:
        pass
    try:
        from nacl.signing import SigningKey
        return lambda seed: lambda text: SigningKey(seed).sign(text).signature
    except ImportError:
        return plain


# Ed25519 in Python: points of the curve are (X, Y, Z, T) with x = X/Z, y = Y/Z
# and xy = T/Z (RFC 8032, 5.1.4).
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493  # the order of the base point
D = -121665 * pow(121666, P - 2, P) % P
BY = 4 * pow(5, P - 2, P) % P
BX = 15112221349535400772501151409588531511454012693041857206046113283949847762202
BASE = (BX, BY, 1, BX * BY % P)


def _add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def _times(scalar, point=BASE):
    total = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point, scalar = _add(point, point), scalar >> 1
    return total


def _encoded(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _number(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def plain(seed):
    """Returns a function that signs with the seed, using only the standard library."""
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & (1 << 254) - 8 | 1 << 254
    public = _encoded(_times(scalar))

    def sign(text):
        r = _number(digest[32:], text) % L
        point = _encoded(_times(r))
        s = (r + _number(point, public, text) * scalar) % L
        return point + s.to_bytes(32, "little")

    return sign
