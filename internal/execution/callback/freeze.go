package callback

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// Final is an execution or a run that becomes final in the caller's transaction, with its record. One of
// Execution and Run is set, without its callback.
type Final struct {
	WorkspaceID, ID uuid.UUID
	Type            string // the webhook-type, such as execution.completed
	Secret          bool   // the body is stored sealed
	Execution       *api.ComponentExecution
	Run             *api.WorkflowRun
}

// OfExecution returns an execution as a Final. Its row has no callback fields, and its output is in
// stored form. If the output is sealed, the body is sealed too.
func OfExecution(ctx context.Context, v *vault.Vault, row db.ExecutionGetRow) (Final, error) {
	final := Final{WorkspaceID: row.WorkspaceID, ID: row.ID, Type: "execution." + strings.ToLower(string(row.Status)), Secret: vault.Sealed(row.Output)}
	output, err := v.OpenJSON(ctx, vault.Place{WorkspaceID: row.WorkspaceID, Row: row.ID, Field: vault.Output}, row.Output)
	if err != nil {
		return final, fmt.Errorf("read the output for a callback: %w", err)
	}
	row.Output = output
	final.Execution = new(present.Execution(row))
	return final, nil
}

// FreezeManyTx freezes the callback bodies of executions and runs that become final in tx, and
// enqueues their first delivery. The body is the record at that time, when the callback has no
// attempts yet. Every attempt and every replay sends these bytes (decisions 5.1). The bodies and the
// jobs are written with the commit.
//
// FreezeManyTx returns the deliveries that this process has room for. The caller must call Start
// after the commit, or Drop if the commit fails. A nil Deliverer has no room.
func (d *Deliverer) FreezeManyTx(ctx context.Context, tx *postgres.Tx, v *vault.Vault, finals []Final) (*Ready, error) {
	if len(finals) == 0 {
		return nil, nil
	}
	deliveries, err := frozen(ctx, tx, v, finals)
	if err != nil || len(deliveries) == 0 {
		return nil, err
	}
	ready := &Ready{deliverer: d, frozen: time.Now()}
	p := db.CallbackFreezeManyParams{Queue: Queue, SafetyNet: d.safetyNet(), MaxRuns: maxRuns}
	for _, c := range deliveries {
		ready.bytes += int64(len(c.body))
		kept := d != nil && d.local.reserve(c.WorkspaceID, len(c.body))
		if kept {
			ready.deliveries = append(ready.deliveries, c)
		}
		p.WorkspaceIds, p.ExecutionIds = append(p.WorkspaceIds, c.WorkspaceID), append(p.ExecutionIds, c.ExecutionID)
		p.Bodies, p.WebhookTypes, p.Kept = append(p.Bodies, c.body), append(p.WebhookTypes, c.kind), append(p.Kept, kept)
	}
	ready.jobs = postgres.Returning[db.CallbackFreezeManyRow](tx.AtCommit(), db.CallbackFreezeMany, p)
	if len(ready.deliveries) < len(deliveries) {
		_ = db.New().RiverJobNotify(ctx, tx.AtCommit(), Queue)
	}
	return ready, nil
}

// frozen loads the callbacks and renders their bodies.
func frozen(ctx context.Context, tx pgx.Tx, v *vault.Vault, finals []Final) ([]delivery, error) {
	var p db.CallbackListForFreezeParams
	given := make(map[uuid.UUID]Final, len(finals))
	for _, final := range finals {
		p.WorkspaceIds = append(p.WorkspaceIds, final.WorkspaceID)
		p.ExecutionIds = append(p.ExecutionIds, final.ID)
		given[final.ID] = final
	}
	callbacks, err := db.New().CallbackListForFreeze(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("read callbacks to freeze: %w", err)
	}
	deliveries := make([]delivery, len(callbacks))
	for i, c := range callbacks {
		final := given[c.ExecutionID]
		body, err := render(ctx, v, final, present.Callback(present.CallbackRow{URL: c.URL, Signed: c.Signed, HeaderNames: c.HeaderNames}))
		if err != nil {
			return nil, fmt.Errorf("freeze callback: %w", err)
		}
		deliveries[i] = delivery{
			Args: Args{WorkspaceID: c.WorkspaceID, ExecutionID: c.ExecutionID}, ofRun: c.OfRun, kind: final.Type,
			restores: c.Restores, url: c.URL, sealed: c.Sealed, body: body,
		}
		if c.Traceparent != nil {
			deliveries[i].traceparent = *c.Traceparent
		}
	}
	return deliveries, nil
}

// render returns the body of a callback in stored form. shown is the callback in the record.
func render(ctx context.Context, v *vault.Vault, final Final, shown api.ComponentExecutionCallback) (body []byte, err error) {
	if final.Run != nil {
		final.Run.Callback = &shown
		body, err = strictjson.Encode(final.Run)
	} else {
		final.Execution.Callback = shown
		body, err = strictjson.Encode(final.Execution)
	}
	if err != nil || !final.Secret {
		return body, err
	}
	return v.Seal(ctx, bodyAt(final.WorkspaceID, final.ID), body)
}

// bodyAt returns the place that the body of a callback is sealed for.
func bodyAt(workspaceID, executionID uuid.UUID) vault.Place {
	return vault.Place{WorkspaceID: workspaceID, Row: executionID, Field: vault.Body}
}

// safetyNet is the delay of the job of a delivery that this process attempts without the queue.
func (d *Deliverer) safetyNet() time.Duration {
	if d == nil {
		return 0
	}
	return startWithin + d.maxDuration()
}
