package callback

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/record"
)

// Final is an execution that becomes final in the caller's transaction, without
// the fields of its callback.
type Final db.ExecutionGetRow

// FreezeManyTx freezes the bodies of the callbacks of executions that become
// final in tx, and queues their first delivery. What is frozen is the record as
// it stands at that moment, the callback's progress still at nought; every
// attempt and replay sends these bytes (decisions 5.1).
func FreezeManyTx(ctx context.Context, tx pgx.Tx, jobs *river.Client[pgx.Tx], finals []Final) error {
	if len(finals) == 0 {
		return nil
	}
	q := db.New()
	var p db.CallbackListForFreezeParams
	rows := make(map[uuid.UUID]db.ExecutionGetRow, len(finals))
	for _, final := range finals {
		p.WorkspaceIds = append(p.WorkspaceIds, final.WorkspaceID)
		p.ExecutionIds = append(p.ExecutionIds, final.ID)
		rows[final.ID] = db.ExecutionGetRow(final)
	}
	callbacks, err := q.CallbackListForFreeze(ctx, tx, p)
	if err != nil {
		return fmt.Errorf("read callbacks to freeze: %w", err)
	}
	var freeze db.CallbackFreezeManyParams
	deliveries := make([]Args, 0, len(callbacks))
	for _, c := range callbacks {
		row := rows[c.ExecutionID]
		row.CallbackURL, row.CallbackSigned, row.CallbackHeaderNames = &c.URL, &c.Signed, c.HeaderNames
		body, err := json.Marshal(record.Execution(row))
		if err != nil {
			return fmt.Errorf("freeze callback: %w", err)
		}
		freeze.WorkspaceIds = append(freeze.WorkspaceIds, c.WorkspaceID)
		freeze.ExecutionIds = append(freeze.ExecutionIds, c.ExecutionID)
		freeze.Bodies = append(freeze.Bodies, body)
		deliveries = append(deliveries, Args{WorkspaceID: c.WorkspaceID, ExecutionID: c.ExecutionID})
	}
	if freeze.JobIds, err = enqueueManyTx(ctx, tx, jobs, deliveries, time.Time{}); err != nil {
		return err
	}
	if err := q.CallbackFreezeMany(ctx, tx, freeze); err != nil {
		return fmt.Errorf("freeze callbacks: %w", err)
	}
	return nil
}
