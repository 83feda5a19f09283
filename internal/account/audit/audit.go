// Package audit records who changed rights, money and secrets, and which requests were denied
// (reliability MT-09).
//
// It judges nothing. The code that makes a change writes its event in the same transaction. The
// one invariant: an event never changes and is never deleted, which a trigger and the database's
// rights enforce. Callers must not put secrets into an event.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/telemetry"
)

// ActorKind is what kind of somebody did it.
type ActorKind string

// The kinds of actors.
const (
	User     ActorKind = "user"     // a person who is signed in
	APIKey   ActorKind = "api_key"  // a program
	Operator ActorKind = "operator" // whoever runs the deployment, by its commands
	System   ActorKind = "system"   // the service by itself
)

// Actor is who did it. ID is of the person or the key, whose name is found; it is
// zero for the others.
type Actor struct {
	Kind ActorKind
	ID   uuid.UUID
}

type actorKey struct{}

// By is ctx for what actor does: events told under it are theirs.
func By(ctx context.Context, actor Actor) context.Context {
	if actor.Kind == User {
		ctx = postgres.Person(ctx, actor.ID) // so that the name is found
	}
	return context.WithValue(ctx, actorKey{}, actor)
}

// actorOf is who acts under ctx: the service itself where nobody was named.
func actorOf(ctx context.Context) Actor {
	if actor, ok := ctx.Value(actorKey{}).(Actor); ok {
		return actor
	}
	return Actor{Kind: System}
}

type happenedKey struct{}

// happened is ctx for what happened at a time that is over: else it is now.
func happened(ctx context.Context, at time.Time) context.Context {
	return context.WithValue(ctx, happenedKey{}, at)
}

// Event is what happened to a workspace. Action is the kind of thing, a dot and
// what became of it: "api_key.created". Subject is what it happened to, empty for
// the workspace itself. Details are members of a JSON object, without secrets.
type Event struct {
	WorkspaceID uuid.UUID
	Action      string
	Actor       Actor // zero: the one of By, or else the service itself
	SubjectKind string
	SubjectID   string
	Details     map[string]any
	RequestID   string // "": that of the context, if it has one
}

// RecordTx writes the event, in the transaction in which it happens. A conn of
// role postgres.API writes for the workspace of its scope only.
func RecordTx(ctx context.Context, conn postgres.DB, e Event) error {
	if e.Actor == (Actor{}) {
		e.Actor = actorOf(ctx)
	}
	if e.RequestID == "" {
		e.RequestID = telemetry.RequestID(ctx)
	}
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	details, err := json.Marshal(e.Details)
	if err != nil {
		return fmt.Errorf("write the details of an audit event: %w", err)
	}
	p := db.AuditEventInsertParams{
		WorkspaceID: e.WorkspaceID, Action: e.Action, ActorKind: string(e.Actor.Kind), Details: details,
		SubjectKind: text(e.SubjectKind), SubjectID: text(e.SubjectID), RequestID: text(e.RequestID),
	}
	if at, ok := ctx.Value(happenedKey{}).(time.Time); ok {
		p.Age = max(0, time.Since(at)) // the clock of stored times is the database's
	}
	if e.Actor.ID != uuid.Nil {
		p.ActorID = &e.Actor.ID
	}
	if err := db.New().AuditEventInsert(ctx, conn, p); err != nil {
		return fmt.Errorf("record %s: %w", e.Action, err)
	}
	return nil
}

// text is null for nothing.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
