// Package audit records who changed rights, money and secrets, and which requests were denied
// (reliability MT-09).
//
// The code that makes a change writes its event in the same transaction. Events never change and are
// never deleted, which a trigger and the database's rights enforce. Callers must not put secrets into
// an event.
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

// ActorKind is the kind of an actor.
type ActorKind string

// The kinds of actors.
const (
	User     ActorKind = "user"     // a person who is signed in
	APIKey   ActorKind = "api_key"  // a program
	Operator ActorKind = "operator" // the operator of the deployment, by a command
	System   ActorKind = "system"   // the service itself
)

// Actor caused an event. ID is the ID of the person or of the key; the database adds the name.
// ID is zero for other kinds.
type Actor struct {
	Kind ActorKind
	ID   uuid.UUID
}

type actorKey struct{}

// By returns a context for the actions of an actor: events recorded with the context have this
// actor.
func By(ctx context.Context, actor Actor) context.Context {
	if actor.Kind == User {
		ctx = postgres.Person(ctx, actor.ID) // makes the name visible
	}
	return context.WithValue(ctx, actorKey{}, actor)
}

// actorOf returns the actor of ctx, or the service itself.
func actorOf(ctx context.Context) Actor {
	if actor, ok := ctx.Value(actorKey{}).(Actor); ok {
		return actor
	}
	return Actor{Kind: System}
}

type happenedKey struct{}

// happened returns a context for events that happened at an earlier time.
func happened(ctx context.Context, at time.Time) context.Context {
	return context.WithValue(ctx, happenedKey{}, at)
}

// Event is something that happened to a workspace. Action has the form KIND.CHANGE, such as
// "api_key.created". Subject is the changed object; it is empty for the workspace itself.
// Details become a JSON object. They must not contain secrets.
type Event struct {
	WorkspaceID uuid.UUID
	Action      string
	Actor       Actor // zero: the actor of By, or else the service itself
	SubjectKind string
	SubjectID   string
	Details     map[string]any
	RequestID   string // "": that of the context
}

// RecordTx writes the event in the transaction of the change. A conn with the role postgres.API
// can write events of the workspace in its scope only.
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
		return fmt.Errorf("encode the details of an audit event: %w", err)
	}
	p := db.AuditEventInsertParams{
		WorkspaceID: e.WorkspaceID, Action: e.Action, ActorKind: string(e.Actor.Kind), Details: details,
		SubjectKind: text(e.SubjectKind), SubjectID: text(e.SubjectID), RequestID: text(e.RequestID),
	}
	if at, ok := ctx.Value(happenedKey{}).(time.Time); ok {
		p.Age = max(0, time.Since(at)) // stored times are computed by the database's clock
	}
	if e.Actor.ID != uuid.Nil {
		p.ActorID = &e.Actor.ID
	}
	if err := db.New().AuditEventInsert(ctx, conn, p); err != nil {
		return fmt.Errorf("record %s: %w", e.Action, err)
	}
	return nil
}

// text returns nil for an empty string.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
