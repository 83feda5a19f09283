package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

type scopeKey struct{}

// Scope returns a context for work on the rows of these workspaces. Connections that a pool of
// role API hands out for this context see only these rows. Without a scope they see no rows.
func Scope(ctx context.Context, workspaceIDs ...uuid.UUID) context.Context {
	ids := make([]string, len(workspaceIDs))
	for i, id := range workspaceIDs {
		ids[i] = id.String()
	}
	slices.Sort(ids)
	return context.WithValue(ctx, scopeKey{}, strings.Join(slices.Compact(ids), ","))
}

type personKey struct{}

// Person returns a context for the actions of a person. Connections that a pool of role API
// hands out for this context see the person, even if the person no longer belongs to a workspace
// of the scope.
func Person(ctx context.Context, id uuid.UUID) context.Context {
	return context.WithValue(ctx, personKey{}, id.String())
}

// enterScope sets the scope of a connection to the caller's scope. It runs a statement only if
// the scope of the connection differs.
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
		return false, err // the pool closes the connection
	}
	data[kept] = want
	return true, nil
}
