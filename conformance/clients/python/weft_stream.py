"""Reads event streams of Weft to their end. Python 3.9 or later, with nothing but
weft_signer.py beside it: copy both.

    weft = WeftSigner(api_key, api_secret)
    for event in events(weft, base_url, f"/v1/sdk/workflows/executions/{run_id}/stream"):
        print(event["status"])

A connection that breaks, or is silent for longer than three heartbeats, is made again with
Last-Event-ID, so that nothing is missed and nothing comes twice.
"""
import collections
import http.client
import json
import time
import urllib.error
import urllib.request

Message = collections.namedtuple("Message", "id event data")

FINAL = ("COMPLETED", "FAILED", "CANCELED")


def events(signer, base_url, path, last_event_id=None, idle=45.0, attempts=8):
    """The events of an execution or a run, each as a dict, to the one with a final status.

    last_event_id: only what came after it; "0" for all that a run has had. idle: seconds of
    silence after which the connection counts as lost. attempts: how often in a row it may be
    lost without any event; then the last error is raised. urllib.error.HTTPError is what
    the service refuses (401, 404, ...)."""
    lost = 0
    while True:
        pause = min(0.25 * 2**lost, 10)
        try:
            with _opened(signer, base_url, path, last_event_id, idle) as answer:
                if answer.status == 204:  # last_event_id is the final event
                    return
                for message in messages(answer):
                    event = json.loads(message.data)
                    final = event["status"] in FINAL
                    if final or message.id is None or message.id != last_event_id:
                        yield event
                        lost, pause = 0, 0.25
                    if final:
                        return
                    last_event_id = message.id or last_event_id
            fault = ConnectionError("the stream ended before the last event")
        except urllib.error.HTTPError as refused:
            refused.close()
            if refused.code not in (429, 502, 503, 504):
                raise
            fault = refused
            pause = max(pause, seconds(refused.headers.get("Retry-After")))
        except (OSError, http.client.HTTPException) as broken:
            fault = broken
        lost += 1
        if lost >= attempts:
            raise fault
        time.sleep(pause)


def messages(lines):
    """The messages of lines of bytes as an event stream has them. Comments (the heartbeat
    :ping) and messages without data are passed over, and so is one that was cut off."""
    id, event, data = None, "message", []
    for line in lines:
        if not line.endswith(b"\n"):
            return
        text = line.decode().rstrip("\r\n")
        if not text:
            if any(data):
                yield Message(id, event, "\n".join(data))
            event, data = "message", []
            continue
        field, _, value = text.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "data":
            data.append(value)
        elif field == "event":
            event = value
        elif field == "id" and "\0" not in value:
            id = value


def _opened(signer, base_url, path, last_event_id, idle):
    request = signer.request(base_url, "GET", path)  # signed anew for each connection
    request.add_header("Accept", "text/event-stream")
    if last_event_id is not None:
        request.add_header("Last-Event-ID", last_event_id)
    return urllib.request.urlopen(request, timeout=idle)


def seconds(retry_after):
    """What a Retry-After says, 0 for none."""
    return float(retry_after) if retry_after and retry_after.isdigit() else 0.0
