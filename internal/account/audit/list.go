package audit

import (
	"context"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/cursor"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// List returns one page of a workspace's events, newest first. It returns INVALID_INPUT for an
// invalid cursor.
func (b *Book) List(ctx context.Context, workspaceID uuid.UUID, limit int, after string) (page api.AuditEventPage, err error) {
	page.Data, page.HasMore, page.NextCursor, err = cursor.Page("audit events", limit, after, func(before uuid.UUID, maxRows int32) ([]db.AuditEventListRow, error) {
		return db.New().AuditEventList(ctx, b.scoped, db.AuditEventListParams{WorkspaceID: workspaceID, Before: before, MaxRows: maxRows})
	}, func(row db.AuditEventListRow) (uuid.UUID, api.AuditEvent, error) { return row.ID, wire(row), nil })
	return page, err
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
