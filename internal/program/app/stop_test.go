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

// A load balancer must see that a process is not ready before its listener closes.
func TestStoppingProcessReportsNotReadyAndServesForTheDrainDelay(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(c *Config) { c.DrainDelay = time.Hour })
	ctx, endDelay := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.app.Stop(ctx) }()
	<-w.app.unready
	answer, err := http.Get(w.app.URL() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "/checks/process") {
		t.Errorf("got readiness %s %s (%v)", answer.Status, text, err)
	}
	record, _, err := w.client.Execute(t.Context(), api.ExecuteComponentRequest{
		Module: "HASH", Input: json.RawMessage(`{"data":"a"}`), Config: json.RawMessage(`{}`), WaitForMs: new(int32(15000)),
	}, nil)
	if err != nil || record.Status != status.ExecutionCompleted {
		t.Errorf("a request during the drain delay returned %s (%v)", record.Status, err)
	}
	select {
	case <-w.app.draining:
		t.Error("streams and waits were closed before the drain delay had passed")
	default:
	}
	endDelay()
	<-stopped
	if answer, err := http.Get(w.app.URL() + "/healthz"); err == nil {
		answer.Body.Close()
		t.Error("the listener is still open after the stop")
	}
}

// The stop timeout is at least the component timeout, and by default no component is interrupted:
// components with longer timeouts only wait between short calls.
func TestTheDefaultStopTimeoutLetsEveryComponentFinish(t *testing.T) {
	if defaultStopTimeout < defaultComponentTimeout {
		t.Errorf("the stop timeout is %v, shorter than the component timeout of %v", defaultStopTimeout, defaultComponentTimeout)
	}
	guard := egress.New(egress.Policy{})
	defer guard.Close()
	registry, err := component.NewRegistry(modules.All(guard)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range registry.List() {
		if d.Timeout > defaultComponentTimeout && d.Timeout < time.Hour {
			t.Errorf("%s has a timeout of %v, but a call is interrupted after %v", d.Module, d.Timeout, defaultComponentTimeout)
		}
	}
}
