package run_test

import (
	"context"
	"encoding/json"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// client calls the service as a client of the API does: it repeats calls that failed with a lock
// timeout, which the API answers with 503 and Retry-After. On a busy machine, a lock may be held
// for longer than the timeout.
type client struct{ *run.Service }

func (c client) Trigger(ctx context.Context, p run.TriggerParams) (run.Triggered, error) {
	return repeated(func() (run.Triggered, error) { return c.Service.Trigger(ctx, p) })
}

func (c client) Signal(ctx context.Context, key notify.Key, access run.Access, name string, payload json.RawMessage) (api.RunSignal, error) {
	return repeated(func() (api.RunSignal, error) { return c.Service.Signal(ctx, key, access, name, payload) })
}

func (c client) Cancel(ctx context.Context, key notify.Key, access run.Access, mode string, reason *string) (api.WorkflowRun, error) {
	return repeated(func() (api.WorkflowRun, error) { return c.Service.Cancel(ctx, key, access, mode, reason) })
}

// repeated calls f until it doesn't fail with a lock timeout.
func repeated[T any](f func() (T, error)) (T, error) {
	for {
		value, err := f()
		if !postgres.Raised(err, "55P03") {
			return value, err
		}
	}
}
