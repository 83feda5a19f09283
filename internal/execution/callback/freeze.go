package callback

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// Final is an execution that becomes final in the caller's transaction. It has no callback fields,
// and its output is in stored form.
type Final db.ExecutionGetRow

// FreezeManyTx freezes the callback bodies of executions that become final in tx, and enqueues
// their first delivery. The body is the execution's record at that time, when the callback has no
// attempts yet. Every attempt and every replay sends these bytes (decisions 5.1). If the output is
// sealed, the body is sealed too. The bodies and the jobs are written with the commit.
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
		kept := d != nil && d.local.reserve(c.WorkspaceID, len(c.body))
		if kept {
			ready.deliveries = append(ready.deliveries, c)
		}
		p.WorkspaceIds, p.ExecutionIds = append(p.WorkspaceIds, c.WorkspaceID), append(p.ExecutionIds, c.ExecutionID)
		p.Bodies, p.Kept = append(p.Bodies, c.body), append(p.Kept, kept)
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
	rows := make(map[uuid.UUID]db.ExecutionGetRow, len(finals))
	for _, final := range finals {
		p.WorkspaceIds = append(p.WorkspaceIds, final.WorkspaceID)
		p.ExecutionIds = append(p.ExecutionIds, final.ID)
		rows[final.ID] = db.ExecutionGetRow(final)
	}
	callbacks, err := db.New().CallbackListForFreeze(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("read callbacks to freeze: %w", err)
	}
	deliveries := make([]delivery, len(callbacks))
	for i, c := range callbacks {
		row := rows[c.ExecutionID]
		row.CallbackURL, row.CallbackSigned, row.CallbackHeaderNames = &c.URL, &c.Signed, c.HeaderNames
		body, err := render(ctx, v, row)
		if err != nil {
			return nil, fmt.Errorf("freeze callback: %w", err)
		}
		deliveries[i] = delivery{
			Args: Args{WorkspaceID: c.WorkspaceID, ExecutionID: c.ExecutionID}, restores: c.Restores, url: c.URL, sealed: c.Sealed, body: body,
		}
		if c.Traceparent != nil {
			deliveries[i].traceparent = *c.Traceparent
		}
	}
	return deliveries, nil
}

// render returns the body for a row in stored form: sealed if the output is sealed.
func render(ctx context.Context, v *vault.Vault, row db.ExecutionGetRow) (body []byte, err error) {
	secret := vault.Sealed(row.Output)
	if row.Output, err = v.OpenJSON(ctx, vault.Place{WorkspaceID: row.WorkspaceID, Row: row.ID, Field: vault.Output}, row.Output); err != nil {
		return nil, err
	}
	if body, err = strictjson.Encode(present.Execution(row)); err != nil || !secret {
		return body, err
	}
	return v.Seal(ctx, bodyAt(row.WorkspaceID, row.ID), body)
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
