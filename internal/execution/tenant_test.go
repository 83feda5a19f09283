package execution_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// Large responses count toward the memory share of the execution's workspace until the attempt
// ends.
func TestLargeResponsesOfAWorkspaceDoNotBlockAnother(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) }))
	t.Cleanup(server.Close)
	guard := egress.New(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	read, end := make(chan struct{}, 100), make(chan struct{})
	reads := module{name: "READS", repeat: component.RepeatPure, timeout: time.Minute, run: func(ctx context.Context, call component.Call) (component.Result, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return component.Result{}, err
		}
		response, err := guard.Client(egress.ClientOptions{}).Do(request)
		if err != nil {
			return component.Result{}, err
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return component.Result{}, err
		}
		read <- struct{}{}
		if string(call.Input) == `{"hold":true}` {
			<-end
		}
		return component.Result{Output: json.RawMessage(`{}`)}, nil
	}}
	b := newBench(t)
	n := b.start(t, options{slots: 20}, reads)
	other := b.other(t, "other")
	const share = 4 // number of largest responses that fit into a workspace's share
	var held []uuid.UUID
	for range share {
		held = append(held, b.submit(t, n, execution.SubmitParams{Module: "READS", Input: json.RawMessage(`{"hold":true}`)}).ID)
	}
	limit := waittest.Context(t)
	for range share {
		select {
		case <-read:
		case <-limit.Done():
			t.Fatal("the answers were not read")
		}
	}
	free := other.submit(t, n, execution.SubmitParams{Module: "READS"})
	if got := other.await(t, n, free.ID); got.Status != status.ExecutionCompleted {
		t.Errorf("the other workspace's execution is %s: %s", got.Status, got.Error)
	}
	close(end)
	for _, id := range held {
		b.await(t, n, id)
	}
	for range share { // the memory of these responses is released
		if got := b.await(t, n, b.submit(t, n, execution.SubmitParams{Module: "READS"}).ID); got.Status != status.ExecutionCompleted {
			t.Errorf("a later execution is %s: %s", got.Status, got.Error)
		}
	}
}
