package audit

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// List returns one page of a workspace's events, newest first. It returns INVALID_INPUT for an
// invalid cursor.
func (b *Book) List(ctx context.Context, workspaceID uuid.UUID, limit int, after string) (api.AuditEventPage, error) {
	page := api.AuditEventPage{Data: []api.AuditEvent{}}
	before, err := cursor.Before(after)
	if err != nil {
		return page, err
	}
	rows, err := db.New().AuditEventList(ctx, b.scoped, db.AuditEventListParams{WorkspaceID: workspaceID, Before: before, MaxRows: int32(limit) + 1})
	if err != nil {
		return page, fmt.Errorf("list audit events: %w", err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.HasMore = true
		page.NextCursor = cursor.Encode(rows[limit-1].ID[:])
	}
	for _, row := range rows {
		page.Data = append(page.Data, wire(row))
	}
	return page, nil
}

// wire converts an event to its API representation.
func wire(row db.AuditEventListRow) api.AuditEvent {
	event := api.AuditEvent{
		ID: row.ID, At: timestamp.Of(row.CreatedAt), Action: row.Action, Details: row.Details, RequestID: row.RequestID,
		Actor: api.AuditActor{Kind: api.AuditActorKind(row.ActorKind), ID: row.ActorID, Name: row.ActorName},
	}
	if row.SubjectKind != nil && row.SubjectID != nil {
		event.Subject = &api.AuditSubject{Kind: *row.SubjectKind, ID: *row.SubjectID}
	}
	return event
}
