package conformance

// callbackParts are the decisions about callbacks.
var callbackParts = []Part{
	{"D5.1.post", "a callback is a POST with application/json, on COMPLETED and on FAILED", ""},
	{"D5.1.frozen", "every retry and replay sends the same bytes and signature", ""},
	{"D5.2.success", "any 2xx is a success", ""},
	{"D5.2.redirect", "redirects are not followed", ""},
	{"D5.2.answer", "the response body of the receiver is never stored", ""},
	{"D5.3.retry", "a failed delivery is retried on the schedule", ""},
	{"D5.3.exhausted", "no attempt follows the last one of the schedule", ""},
	{"D5.3.410", "410 stops the retries", ""},
	{"D5.3.slow", "a slow receiver does not delay others", ""},
	{"D5.4.webhook", "the Standard Webhooks headers are sent if a secret was supplied", ""},
	{"D5.4.restore", "if a record is computed again after a backup was restored, webhook-id is <id>.2 and so on", insideBy("internal/execution/callback.TestARestoreChangesTheWebhookID")},
	{"D5.4.id", "X-Svc-Execution-Id is always sent", ""},
	{"D5.5", "rules for callbackUrl", ""},
	{"D5.6", "rules for callbackHeaders", ""},
	{"D5.7.rest", "secrets are encrypted at rest", insideBy("internal/program/app.TestMT05SecretFieldsOfRequestsDoNotLeak")},
	{"D5.7.echo", "secrets are never echoed", ""},
	{"D5.8", "every attempt is stored and listed", ""},
	{"D8.21", "a run calls back when it is COMPLETED, FAILED or CANCELED, with its record as of its end", ""},
	{"D8.21.headers", "X-Svc-Run-Id and webhook-type are always sent, and X-Svc-Execution-Id never", ""},
	{"D8.21.shown", "the record of a run shows its callback", ""},
	{"D8.21.own", "reruns and child runs have no callback", ""},
	{"D8.21.replayed", "the callback of a run is replayed and its attempts are listed as those of an execution", ""},
	{"D8.21.refused", "the callback of a run is refused as that of an execution is", ""},
}
