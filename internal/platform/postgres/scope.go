package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

type scopeKey struct{}

// Scope is ctx for work on the rows of these workspaces: a connection that a pool
// of role API gives out for it sees their rows and no others. Without a scope it
// sees none.
func Scope(ctx context.Context, workspaceIDs ...uuid.UUID) context.Context {
	ids := make([]string, len(workspaceIDs))
	for i, id := range workspaceIDs {
		ids[i] = id.String()
	}
	slices.Sort(ids)
	return context.WithValue(ctx, scopeKey{}, strings.Join(slices.Compact(ids), ","))
}

type personKey struct{}

// Person is ctx for what somebody does: a connection that a pool of role API gives
// out for it sees who that is, whether they belong to a workspace of the scope or
// not any more.
func Person(ctx context.Context, id uuid.UUID) context.Context {
	return context.WithValue(ctx, personKey{}, id.String())
}

// enterScope gives a connection the scope of the caller, whatever the one before
// left. That costs a statement only where it differs.
func enterScope(ctx context.Context, conn *pgx.Conn) (bool, error) {
	const kept = "weft.scope"
	workspaces, _ := ctx.Value(scopeKey{}).(string)
	person, _ := ctx.Value(personKey{}).(string)
	want := workspaces
	if person != "" {
		want += " " + person
	}
	data := conn.PgConn().CustomData()
	if have, _ := data[kept].(string); have == want {
		return true, nil
	}
	delete(data, kept)
	if _, err := conn.Exec(ctx, "SELECT set_config('weft.workspaces', $1, false), set_config('weft.person', $2, false)", workspaces, person); err != nil {
		return false, err // not fit for anybody: the pool closes it
	}
	data[kept] = want
	return true, nil
}
