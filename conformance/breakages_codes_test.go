package conformance

import (
	"net/http"
	"slices"
)

// recoded replaces one status with another, for some operations or all.
func recoded(from, to int, operations ...string) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a == nil || a.status != from || len(operations) > 0 && !slices.Contains(operations, c.operation) {
			return a
		}
		return b.status(a, to)
	}
}

// accepted returns a success for requests that should be rejected.
func accepted(status int) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && a.status == status {
			b.wrong()
			a.status, a.body = http.StatusOK, []byte(`{}`)
			a.header.Set("Content-Type", "application/json")
		}
		return a
	}
}

// renamed changes the code of the errors with a status.
func renamed(status int, code string) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && a.status == status {
			b.edit(a, func(p map[string]any) bool {
				p["code"], p["error"] = code, code
				return true
			})
		}
		return a
	}
}

var codeBreakages = []breakage{
	{name: "an execution is answered 201", part: "4.success", do: recoded(200, 201, "executeComponent")},
	{name: "an execution is answered 202", part: "4.1.1", do: recoded(200, 202, "executeComponent")},
	{name: "a workflow is answered 201", part: "D8.1", do: recoded(200, 201, "createWorkflow")},
	{name: "a replay is answered 202", part: "4.4", do: recoded(200, 202, "replayComponentCallback")},
	{name: "a trigger is answered 201", part: "4.5", do: recoded(200, 201, "triggerWorkflow")},
	{name: "an update is answered 204", part: "4.8", do: recoded(200, 204, "updateWorkflowComponent")},
	{name: "400 is 422", part: "D3.table", do: recoded(400, 422)},
	{name: "400 is 500", part: "4.1.module", do: recoded(400, 500)},
	{name: "a broken envelope is accepted", part: "4.1.input", do: accepted(400)},
	{name: "422 is 400", part: "D8.1.checked", do: recoded(422, 400)},
	{name: "401 is 403", part: "D2.5.same", do: recoded(401, 403)},
	{name: "401 is 200", part: "4.auth", do: accepted(401)},
	{name: "402 is 403", part: "D7.3", do: recoded(402, 403)},
	{name: "403 is 404", part: "7.403", do: recoded(403, 404)},
	{name: "403 is 401", part: "5.1.3", do: recoded(403, 401)},
	{name: "403 is 400 for a trigger", part: "4.5.restricted", do: recoded(403, 400)},
	{name: "404 is 403", part: "D1.2.404", do: recoded(404, 403)},
	{name: "404 is 410", part: "D1.2.404", do: recoded(404, 410)},
	{name: "405 is 404", part: "D3.405", do: recoded(405, 404)},
	{name: "406 is 415", part: "D3.406", do: recoded(406, 415)},
	{name: "409 is 400", part: "D3.table", do: recoded(409, 400)},
	{name: "a replay without a callback is 200", part: "4.4.callbackUrl", do: accepted(409)},
	{name: "409 of a mismatch is 422", part: "D1.7.mismatch", do: recoded(409, 422)},
	{name: "412 is 409", part: "D3.412", do: recoded(412, 409)},
	{name: "413 is 400", part: "D1.1.size", do: recoded(413, 400)},
	{name: "414 is 404", part: "D3.414", do: recoded(414, 404)},
	{name: "415 is 400", part: "D1.1.type", do: recoded(415, 400)},
	{name: "429 is 503", part: "7.429", slow: true, do: recoded(429, 503)},
	{name: "429 is 403", part: "8.2", do: recoded(429, 403)},
	{name: "UNAUTHORIZED is FORBIDDEN", part: "D2.5.same", do: renamed(401, "FORBIDDEN")},
	{name: "INSUFFICIENT_CREDITS is PAYMENT_REQUIRED", part: "D7.3", do: renamed(402, "PAYMENT_REQUIRED")},
	{name: "NOT_FOUND is GONE", part: "D1.2.404", do: renamed(404, "GONE")},
	{name: "NO_CALLBACK is CONFLICT", part: "D4.6.conflicts", do: renamed(409, "CONFLICT")},
	{name: "IDEMPOTENCY_MISMATCH is CONFLICT", part: "D1.7.mismatch", do: renamed(409, "CONFLICT")},
	{name: "INVALID_INPUT is BAD_REQUEST", part: "D3.table", do: renamed(400, "BAD_REQUEST")},
	{name: "FORBIDDEN is UNAUTHORIZED", part: "D2.8.workflows", do: renamed(403, "UNAUTHORIZED")},
	{name: "RATE_LIMITED is CONFLICT", part: "D3.table", slow: true, do: renamed(429, "CONFLICT")},
	{
		name: "a failure shows a stack", part: "D3.inside",
		do: func(b *breaker, c *call) *answer {
			a := b.pass(c)
			if a != nil && a.status >= 400 {
				b.edit(a, func(p map[string]any) bool {
					p["detail"], p["message"] = "goroutine 1 [running]", "goroutine 1 [running]"
					return true
				})
			}
			return a
		},
	},
	{
		name: "a failure is not a problem", part: "D3.form",
		do: func(b *breaker, c *call) *answer {
			a := b.pass(c)
			if a != nil && a.status >= 400 && a.header.Get("Content-Type") == "application/problem+json" {
				b.wrong()
				a.header.Set("Content-Type", "application/json")
			}
			return a
		},
	},
	{
		name: "an own request id is replaced", part: "D1.6.own",
		do: func(b *breaker, c *call) *answer {
			b.wrong()
			c.header.Del("X-Request-Id")
			return b.pass(c)
		},
	},
}
