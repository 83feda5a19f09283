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

// Call is the body of an execution request; members that are nil are left out.
type Call struct {
	Module          string            `json:"module"`
	Input           map[string]any    `json:"input"`
	Config          map[string]any    `json:"config"`
	Attempts        any               `json:"attempts,omitempty"`
	WaitForMs       any               `json:"waitForMs,omitempty"`
	MaxCredits      any               `json:"maxCredits,omitempty"`
	CallbackURL     any               `json:"callbackUrl,omitempty"`
	CallbackSecret  any               `json:"callbackSecret,omitempty"`
	CallbackHeaders map[string]string `json:"callbackHeaders,omitempty"`
}

// RandomUUID is the simplest call.
func RandomUUID() Call {
	return Call{Module: "RANDOM_UUID", Input: map[string]any{}, Config: map[string]any{}}
}

// Fetch is a call of API_CALL on an upstream.
func Fetch(url string) Call {
	return Call{
		Module: "API_CALL", Input: map[string]any{"headers": map[string]any{}},
		Config: map[string]any{"apiUrl": url, "method": http.MethodGet},
	}
}

// Waiting is the call with waitForMs.
func (c Call) Waiting(ms int) Call {
	c.WaitForMs = ms
	return c
}

// Execute submits a call that is accepted.
func (t *Trial) Execute(call Call) api.ComponentExecution {
	return Decode[api.ComponentExecution](t, t.Post(Components, call))
}

// Record is the present record of an execution.
func (t *Trial) Record(id string) api.ComponentExecution {
	return Decode[api.ComponentExecution](t, t.Get(Execution(id)))
}

// Final polls an execution to its end.
func (t *Trial) Final(id string) api.ComponentExecution {
	return t.Eventually(id, "final", func(e api.ComponentExecution) bool { return e.Status.Terminal() })
}

// Eventually polls an execution until its record is as wanted.
func (t *Trial) Eventually(id, what string, yes func(api.ComponentExecution) bool) api.ComponentExecution {
	var last api.ComponentExecution
	t.Until("execution "+id+" "+what, 30*time.Second, func() bool {
		last = t.Record(id)
		return yes(last)
	})
	return last
}
