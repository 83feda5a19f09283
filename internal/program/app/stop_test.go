package app

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// A load balancer has to see that a process is leaving before its listener closes.
func TestAStoppingProcessIsNotReadyAndServesForItsDrainDelay(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(c *Config) { c.DrainDelay = time.Hour })
	ctx, endDelay := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.app.Stop(ctx) }()
	<-w.app.leaving
	answer, err := http.Get(w.app.URL() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "/checks/process") {
		t.Errorf("readiness is %s %s, %v", answer.Status, text, err)
	}
	record, _, err := w.client.Execute(t.Context(), api.ExecuteComponentRequest{
		Module: "HASH", Input: json.RawMessage(`{"data":"a"}`), Config: json.RawMessage(`{}`), WaitForMs: new(int32(15000)),
	}, nil)
	if err != nil || record.Status != status.ExecutionCompleted {
		t.Errorf("a request during the drain delay ended %s, %v", record.Status, err)
	}
	select {
	case <-w.app.draining:
		t.Error("streams and waits ended before the drain delay")
	default:
	}
	endDelay()
	<-stopped
	if answer, err := http.Get(w.app.URL() + "/healthz"); err == nil {
		answer.Body.Close()
		t.Error("the listener is open after the stop")
	}
}

// What a stop allows is at least what a call may take, and by default no component
// is cut short: those with longer timeouts wait between short calls.
func TestTheDefaultStopTimeoutLetsEveryComponentFinish(t *testing.T) {
	if defaultStopTimeout < defaultComponentTimeout {
		t.Errorf("a stop allows %v, and a call may take %v", defaultStopTimeout, defaultComponentTimeout)
	}
	guard := egress.New(egress.Policy{})
	defer guard.Close()
	registry, err := component.NewRegistry(modules.All(guard)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range registry.List() {
		if d.Timeout > defaultComponentTimeout && d.Timeout < time.Hour {
			t.Errorf("%s may take %v, and a call is cut off after %v", d.Module, d.Timeout, defaultComponentTimeout)
		}
	}
}
