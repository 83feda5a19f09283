"""A client of Weft by hand, on the standard library: the operations that most programs need.
Python 3.9 or later; copy it with weft_signer.py and weft_stream.py.

    weft = Weft.of(".weft/credentials.json")
    record = weft.execute("RANDOM_UUID", wait_ms=15000)
    run_id = weft.trigger(workflow_id)["runId"]
    for event in weft.run_events(run_id): ...
"""
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
from typing import Any, Iterator, List, Optional, TypedDict

import weft_signer
import weft_stream


class Callback(TypedDict):
    url: Optional[str]
    signed: bool
    signatureAlgorithm: Optional[str]
    headerNames: List[str]
    lastAttemptAt: Optional[str]
    deliveredAt: Optional[str]
    attemptCount: int
    lastError: Any


class Execution(TypedDict):
    id: str
    module: str
    status: str  # CREATED, EXECUTING, COMPLETED, FAILED
    completed: bool
    output: Any
    error: Any
    totalUsage: float
    callback: Callback
    createdAt: str
    updatedAt: str


class ExecutionEvent(TypedDict):
    id: str
    module: str
    status: str
    output: Any
    error: Any
    totalUsage: float
    timestamp: str


class Run(TypedDict):
    id: str
    workflowId: str
    status: str  # CREATED, EXECUTING, COMPLETED, FAILED, CANCELED
    output: Any
    error: Any
    pendingStageCount: int
    failedStageCount: int
    totalUsage: float
    runStages: List[Any]
    createdAt: str
    updatedAt: str


class RunEvent(TypedDict):
    id: str
    seq: int
    status: str
    output: Any
    error: Any
    timestamp: str


class WeftError(Exception):
    """An answer that is no success. code is stable; problem is all that the service said. The
    message ends with the address that explains the causes."""

    def __init__(self, status, problem, base_url=""):
        docs = f" See {base_url}{problem['docs']}" if problem.get("docs") else ""
        super().__init__(f"{status} {problem.get('code')}: {problem.get('detail')}{docs}")
        self.status, self.code, self.problem = status, problem.get("code"), problem


class Weft:
    def __init__(self, base_url, api_key, api_secret):
        self.base_url = base_url.rstrip("/")
        self.signer = weft_signer.WeftSigner(api_key, api_secret)

    @classmethod
    def of(cls, path):
        """The client of a credentials.json, as weft dev and weft keys create write it."""
        with open(path, encoding="utf-8") as file:
            credentials = json.load(file)
        return cls(credentials["baseUrl"], credentials["apiKey"], credentials["apiSecret"])

    def call(self, method, path, body=None, idempotency_key=None, patience=5):
        """Signs, sends and decodes. What a limit refuses is sent again once Retry-After is
        over, patience times in all. Raises WeftError; OSError if nobody answers. What was lost
        on the way may have been done: send it again with the same idempotency_key."""
        raw = b"" if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        for attempt in range(1, patience + 1):
            request = self.signer.request(self.base_url, method, path, raw)
            if idempotency_key is not None:
                request.add_header("Idempotency-Key", idempotency_key)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    if answer.headers.get("Weft-Ignored"):
                        warnings.warn(f"{method} {path}: Weft does not know and ignored {answer.headers['Weft-Ignored']}", stacklevel=2)
                    return json.load(answer)
            except urllib.error.HTTPError as refused:
                problem = _problem(refused)
                # A 503 without Retry-After may have taken effect.
                repeatable = refused.code == 429 or refused.code == 503 and "Retry-After" in refused.headers
                if not repeatable or attempt == patience:
                    raise WeftError(refused.code, problem, self.base_url) from None
                time.sleep(weft_stream.seconds(refused.headers.get("Retry-After")) or 1)

    def execute(self, module, input=None, config=None, wait_ms=None, idempotency_key=None, **more) -> Execution:
        """Executes a component. more: attempts, callbackUrl, callbackSecret, callbackHeaders, ..."""
        body = {"module": module, "input": input or {}, "config": config or {}, **more}
        if wait_ms is not None:
            body["waitForMs"] = wait_ms
        return self.call("POST", "/v1/sdk/components", body, idempotency_key)

    def execution(self, id) -> Execution:
        return self.call("GET", f"/v1/sdk/components/executions/{_part(id)}")

    def execution_events(self, id) -> Iterator[ExecutionEvent]:
        return weft_stream.events(self.signer, self.base_url, f"/v1/sdk/components/executions/{_part(id)}/stream")

    def trigger(self, workflow_id, idempotency_key=None, **more):
        """Begins a run: {"runId", "jobId"}. more: input, metadata, waitForMs, maxCredits, ..."""
        return self.call("POST", f"/v1/sdk/workflows/{_part(workflow_id)}", more or None, idempotency_key)

    def run(self, id) -> Run:
        return self.call("GET", f"/v1/sdk/workflows/executions/{_part(id)}")

    def run_events(self, id, after=None) -> Iterator[RunEvent]:
        """after: only events of a later seq; 0 for all that the run has had."""
        path = f"/v1/sdk/workflows/executions/{_part(id)}/stream"
        return weft_stream.events(self.signer, self.base_url, path, None if after is None else str(after))


def _part(id):
    return urllib.parse.quote(id, safe="")


def _problem(refused):
    try:
        with refused:
            problem = json.load(refused)
        return problem if isinstance(problem, dict) else {"detail": refused.reason}
    except ValueError:  # a proxy on the way answers as it likes
        return {"detail": refused.reason}
