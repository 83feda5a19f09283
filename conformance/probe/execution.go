package probe

import (
	"net/http"
	"time"

	"github.com/weft-automation/weft/gen/api"
)

// Components is the path to execute components on.
const Components = "/v1/sdk/components"

// Executions is the path of all executions.
const Executions = Components + "/executions"

// Execution is the path of one execution.
func Execution(id string) string { return Executions + "/" + id }

// Call is the body of an execution request. Nil fields are omitted.
type Call struct {
	Module          string            `json:"module"`
	Input           map[string]any    `json:"input"`
	Config          map[string]any    `json:"config"`
	Attempts        any               `json:"attempts,omitempty"`
	Retry           any               `json:"retry,omitempty"`
	WaitForMs       any               `json:"waitForMs,omitempty"`
	MaxCredits      any               `json:"maxCredits,omitempty"`
	CallbackURL     any               `json:"callbackUrl,omitempty"`
	CallbackSecret  any               `json:"callbackSecret,omitempty"`
	CallbackHeaders map[string]string `json:"callbackHeaders,omitempty"`
}

// RandomUUID returns the simplest call.
func RandomUUID() Call {
	return Call{Module: "RANDOM_UUID", Input: map[string]any{}, Config: map[string]any{}}
}

// Fetch returns a call of API_CALL to an upstream.
func Fetch(url string) Call {
	return Call{
		Module: "API_CALL", Input: map[string]any{"headers": map[string]any{}},
		Config: map[string]any{"apiUrl": url, "method": http.MethodGet},
	}
}

// Waiting returns the call with waitForMs.
func (c Call) Waiting(ms int) Call {
	c.WaitForMs = ms
	return c
}

// Execute submits a call and returns its record.
func (t *Trial) Execute(call Call) api.ComponentExecution {
	return Decode[api.ComponentExecution](t, t.Post(Components, call))
}

// Record returns the current record of an execution.
func (t *Trial) Record(id string) api.ComponentExecution {
	return Decode[api.ComponentExecution](t, t.Get(Execution(id)))
}

// Final polls an execution until it is final.
func (t *Trial) Final(id string) api.ComponentExecution {
	return t.Eventually(id, "final", func(e api.ComponentExecution) bool { return e.Status.Terminal() })
}

// Eventually polls an execution until its record meets a condition.
func (t *Trial) Eventually(id, what string, yes func(api.ComponentExecution) bool) api.ComponentExecution {
	var last api.ComponentExecution
	t.Until("execution "+id+" "+what, 30*time.Second, func() bool {
		last = t.Record(id)
		return yes(last)
	})
	return last
}
