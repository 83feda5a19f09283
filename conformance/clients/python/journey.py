"""All that one does with Weft, once each; prints what came of it as JSON.

    python3 journey.py .weft/credentials.json

The callback comes to a port of this machine: weft dev --allow-network 127.0.0.0/8.
"""
import http.server
import json
import queue
import sys
import threading
import time
import urllib.error
import urllib.request

from weft_callback import Forged, verify
from weft_client import Weft, WeftError

SECRET = "a secret of both, with an ä"


def inline(weft):
    record = weft.execute("RANDOM_UUID", wait_ms=15000)
    return {"id": record["id"], "status": record["status"], "uuid": record["output"]["uuid"]}


def polled(weft):
    record = weft.execute("HASH", {"data": "hällo", "algorithm": "sha256"}, idempotency_key=f"journey-{time.time_ns()}")
    first, pause = record["status"], 0.02
    while record["status"] in ("CREATED", "EXECUTING"):
        time.sleep(pause)
        pause = min(pause * 2, 2)
        record = weft.execution(record["id"])
    return {"id": record["id"], "first": first, "status": record["status"], "digest": record["output"]["digest"]}


def streamed(weft):
    id = weft.execute("RANDOM_UUID")["id"]
    events = list(weft.execution_events(id))
    return {"id": id, "statuses": [event["status"] for event in events], "uuid": events[-1]["output"]["uuid"]}


def run(weft, workflow_id):
    id = weft.trigger(workflow_id)["runId"]
    events = list(weft.run_events(id, after=0))
    record = weft.run(id)
    return {
        "id": id,
        "seqs": [event["seq"] for event in events],
        "statuses": [event["status"] for event in events],
        "totalUsage": events[-1]["output"]["totalUsage"],
        "prices": record["output"]["prices"],
    }


def receiver(came):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                verify(SECRET, self.headers, body)
                genuine = True
            except Forged:
                genuine = False
            self.send_response(204 if genuine else 401)
            self.end_headers()
            if genuine:
                came.put((self.headers, body))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/weft"


def callback(weft):
    came = queue.Queue()
    url = receiver(came)
    sent = weft.execute("RANDOM_UUID", callbackUrl=url, callbackSecret=SECRET, callbackHeaders={"X-Order": "4711"})
    headers, body = came.get(timeout=600)
    record = json.loads(body)
    altered = body.replace(b'"COMPLETED"', b'"FAILED"')
    kept = {name: value for name, value in headers.items() if name not in ("Host", "Content-Length")}
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, altered, kept), timeout=600).status
    except urllib.error.HTTPError as refused:
        answer = refused.code
    return {
        "id": sent["id"], "executionId": headers["X-Svc-Execution-Id"], "order": headers["X-Order"],
        "uuid": record["output"]["uuid"], "altered": answer,
    }


def refused(weft):
    try:
        weft.execute("HASH", {"algorithm": "sha256"})
    except WeftError as error:
        return {"status": error.status, "code": error.code, "pointer": error.problem["errors"][0]["pointer"]}


def main(path):
    weft = Weft.of(path)
    with open(path, encoding="utf-8") as file:
        workflow_id = json.load(file)["workflows"]["fanOut"]
    print(json.dumps({
        "inline": inline(weft),
        "polled": polled(weft),
        "streamed": streamed(weft),
        "run": run(weft, workflow_id),
        "callback": callback(weft),
        "refused": refused(weft),
    }))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".weft/credentials.json")
