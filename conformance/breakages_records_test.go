package conformance

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// forcing changes the target of a request and signs it again.
func forcing(suffix, with string) func(*breaker, *call) *answer {
	return altered(func(c *call) bool {
		forced := strings.HasSuffix(c.target, suffix)
		if forced {
			c.target += with
		}
		return forced
	})
}

// echoed stores the callbackHeaders or secrets of requests and adds them to records.
func echoed(member string) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		var sent map[string]any
		if executes(c) && json.Unmarshal(c.body, &sent) == nil && sent[member] != nil {
			text, _ := json.Marshal(sent[member])
			b.mu.Lock()
			b.kept[member] = string(text)
			b.mu.Unlock()
		}
		a := b.pass(c)
		b.mu.Lock()
		kept := b.kept[member]
		b.mu.Unlock()
		if a != nil && kept != "" && c.operation == "getComponentExecution" {
			b.edit(a, func(record map[string]any) bool {
				record["request"] = map[string]any{member: json.RawMessage(kept)}
				return true
			})
		}
		return a
	}
}

// keyless removes the Idempotency-Key, and marks the responses as if it had been used.
func keyless(operation string) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		key := c.header.Get("Idempotency-Key")
		if key == "" || c.operation != operation {
			return b.pass(c)
		}
		b.wrong()
		c.header.Del("Idempotency-Key")
		a := b.pass(c)
		b.mu.Lock()
		defer b.mu.Unlock()
		if a != nil && b.kept[key] != "" {
			a.header.Set("Idempotent-Replayed", "true")
		}
		b.kept[key] = "seen"
		return a
	}
}

// shown changes the records in responses.
func shown(operations []string, change func(map[string]any) bool) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && a.status == http.StatusOK && slices.Contains(operations, c.operation) {
			b.edit(a, change)
		}
		return a
	}
}

var records = []string{"executeComponent", "getComponentExecution", "replayComponentCallback"}

var recordBreakages = []breakage{
	{name: "an Idempotency-Key is not read", part: "D1.7.replay", do: keyless("executeComponent")},
	{name: "the Idempotency-Key of a trigger is not read", part: "D1.7.trigger", do: keyless("triggerWorkflow")},
	{name: "an Idempotency-Key holds in every workspace", part: "D1.7.scope", do: func(b *breaker, c *call) *answer {
		if c.header.Get("Idempotency-Key") != "" && c.header.Get("X-Api-Key") != b.own.APIKey {
			b.sign(c, b.own)
		}
		return b.pass(c)
	}},
	{name: "another workspace's record is readable", part: "D1.2.404", do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && a.status == http.StatusNotFound && strings.Contains(c.target, "/executions/") && c.header.Get("X-Api-Key") == b.own.APIKey {
			for _, other := range b.keys {
				b.sign(c, other)
				if seen := b.pass(c); seen != nil && seen.status == http.StatusOK {
					return seen
				}
			}
		}
		return a
	}},
	{name: "the values of callback headers are echoed", part: "2.2.values", do: echoed("callbackHeaders")},
	{name: "the secret of a callback is echoed", part: "D5.7.echo", do: echoed("callbackSecret")},
	{name: "a replay sends again what was delivered", part: "D4.6.unchanged", do: forcing("/replay-callback", "?force=true")},
	{name: "a forced replay sends nothing", part: "D4.6.force", slow: true, do: altered(func(c *call) bool {
		before, found := strings.CutSuffix(c.target, "?force=true")
		c.target = before
		return found
	})},
	{name: "a list begins with the oldest", part: "D1.5.order", do: shown([]string{"listComponentExecutions"}, func(page map[string]any) bool {
		data, _ := page["data"].([]any)
		slices.Reverse(data)
		return len(data) > 1
	})},
	{name: "a list is not filtered", part: "D1.5.filter", do: altered(func(c *call) bool {
		filtered := c.operation == "listComponentExecutions" && strings.Contains(c.target, "status=FAILED")
		c.target = strings.ReplaceAll(c.target, "status=FAILED", "status=COMPLETED")
		return filtered
	})},
	{name: "completed is true for FAILED", part: "D4.1.completed", do: shown(records, func(record map[string]any) bool {
		failed := record["status"] == "FAILED"
		record["completed"] = record["completed"] == true || failed
		return failed
	})},
	{name: "an execution has EXECUTING at once", part: "3.1.created", do: shown([]string{"executeComponent"}, func(record map[string]any) bool {
		created := record["status"] == "CREATED"
		if created {
			record["status"] = "EXECUTING"
		}
		return created
	})},
	{name: "a finished execution costs nothing", part: "2.1.totalUsage", do: shown(records, func(record map[string]any) bool {
		record["totalUsage"] = 0
		return record["status"] == "COMPLETED"
	})},
	{name: "the output of a finished execution is missing", part: "3.1.completed", do: shown(records, func(record map[string]any) bool {
		record["output"] = nil
		return record["status"] == "COMPLETED"
	})},
	{name: "an id is not of version 7", part: "D1.2.form", do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		if a != nil && executes(c) {
			b.edit(a, func(record map[string]any) bool {
				id, _ := record["id"].(string)
				record["id"] = id[:14] + "4" + id[15:]
				return true
			})
		}
		return a
	}},
	{name: "times have no milliseconds", part: "2.1.createdAt", do: shown(records, func(record map[string]any) bool {
		at, _ := record["createdAt"].(string)
		record["createdAt"] = at[:19] + "Z"
		return true
	})},
	{name: "an update of a component loses what it does not name", part: "4.8", do: worded(`"position":`, `"config":{},"position":`)},
	{name: "a revoked key says that it is gone", part: "D2.5.same", do: func(b *breaker, c *call) *answer {
		a := b.pass(c)
		b.mu.Lock()
		_, known := b.keys[c.header.Get("X-Api-Key")]
		b.mu.Unlock()
		if a != nil && a.status == http.StatusUnauthorized && !known {
			b.wrong()
			a.body = bytes.ReplaceAll(a.body, []byte("invalid_credentials"), []byte("key_revoked"))
		}
		return a
	}},
	{name: "a stage that waits is not shown", part: "2.3.runStages", do: shown([]string{"getWorkflowRun"}, func(run map[string]any) bool {
		stages, _ := run["runStages"].([]any)
		if len(stages) > 1 {
			run["runStages"] = stages[:len(stages)-1]
		}
		return len(stages) > 1
	})},
	{name: "a pending stage is not counted", part: "2.3.counts", do: shown([]string{"getWorkflowRun"}, func(run map[string]any) bool {
		pending := run["pendingStageCount"] != json.Number("0")
		run["pendingStageCount"] = 0
		return pending
	})},
	{name: "a trigger gives the id of no run", part: "4.5.answer", do: shown([]string{"triggerWorkflow"}, func(accepted map[string]any) bool {
		accepted["runId"] = anotherID
		return true
	})},
	{name: "a key that is made does not begin with ws_", part: "2.6.prefix", do: shown([]string{"createApiKey"}, func(key map[string]any) bool {
		text, _ := key["apiKey"].(string)
		key["apiKey"] = "sk_" + strings.TrimPrefix(text, "ws_")
		return true
	})},
	{name: "unknown members are refused", part: "D1.1.unknown", do: func(b *breaker, c *call) *answer {
		b.wrong()
		c.header.Set("Prefer", "handling=strict")
		return b.pass(c)
	}},
	{name: "strictness is not read", part: "D1.1.strict", do: func(b *breaker, c *call) *answer {
		b.wrong()
		c.header.Del("Prefer")
		return b.pass(c)
	}},
}
