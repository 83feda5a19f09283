package run

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/present"
)

// prepareCallback sets the row of the run's callback, if it has one.
func (s *Service) prepareCallback(p TriggerParams, n *newRun) error {
	if p.Callback == nil {
		return nil
	}
	sealed, names, err := p.Callback.Stored(s.Executions.Keyring, p.WorkspaceID, n.id)
	if err != nil {
		return err
	}
	n.callback = &db.CallbackInsertForRunParams{
		WorkspaceID: p.WorkspaceID, RunID: n.id, URL: p.Callback.URL, Sealed: sealed, Signed: p.Callback.Secret != nil, HeaderNames: append([]string{}, names...),
	}
	if p.Traceparent != "" {
		n.callback.Traceparent = &p.Traceparent
	}
	return nil
}

// callbacks returns the callbacks of those runs that have one. A callback may be attempted after the row
// of its run was read: an unfinished run shows no attempt.
func (s *Service) callbacks(ctx context.Context, workspaceID uuid.UUID, rows []db.RunGetRow) (map[uuid.UUID]*api.ComponentExecutionCallback, error) {
	var ids []uuid.UUID
	final := map[uuid.UUID]bool{}
	for _, row := range rows {
		if row.HasCallback {
			ids, final[row.ID] = append(ids, row.ID), row.Status.Terminal()
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := db.New().CallbackListOfRuns(ctx, s.API, db.CallbackListOfRunsParams{WorkspaceID: workspaceID, RunIds: ids})
	if err != nil {
		return nil, fmt.Errorf("read the callbacks of runs: %w", err)
	}
	shown := map[uuid.UUID]*api.ComponentExecutionCallback{}
	for _, c := range found {
		row := present.CallbackRow{URL: c.URL, Signed: c.Signed, HeaderNames: c.HeaderNames}
		if final[c.ExecutionID] {
			row.AttemptCount, row.LastAttemptAt, row.DeliveredAt, row.LastError = c.AttemptCount, c.LastAttemptAt, c.DeliveredAt, c.LastError
		}
		shown[c.ExecutionID] = new(present.Callback(row))
	}
	return shown, nil
}
