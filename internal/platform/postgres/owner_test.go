package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// owned creates a database whose owner isn't a superuser and can't create roles.
func owned(t *testing.T) (admin *pgx.Conn, owner, dsn string) {
	t.Helper()
	admin, err := postgres.Connect(t.Context(), pgtest.ServerDSN(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	owner = "weft_owner_" + strings.ToLower(rand.Text()[:10])
	for _, statement := range []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'owner'", owner), fmt.Sprintf("CREATE DATABASE %s OWNER %[1]s", owner),
	} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, statement := range []string{fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", owner), "DROP ROLE " + owner} {
			if _, err := admin.Exec(context.Background(), statement); err != nil {
				t.Error(err)
			}
		}
		_ = admin.Close(context.Background())
	})
	address, err := url.Parse(pgtest.ServerDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(owner, "owner")
	address.Path = "/" + owner
	return admin, owner, address.String()
}

func TestAnOwnerWithoutTheRolesGetsTheStatementToRun(t *testing.T) {
	_, owner, dsn := owned(t)
	pool, err := postgres.OpenWithoutTimeouts(t.Context(), dsn, "test", postgres.Owner, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.Migrate(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "GRANT weft_api, weft_system TO "+owner) {
		t.Errorf("got %v", err)
	}
}

func TestAnOwnerWithoutSuperuserRightsMigratesAndUsesTheRoles(t *testing.T) {
	_ = pgtest.DSN(t) // creating the template creates the roles, as an administrator would
	admin, owner, dsn := owned(t)
	if _, err := admin.Exec(t.Context(), "GRANT weft_api, weft_system TO "+owner); err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.OpenWithoutTimeouts(t.Context(), dsn, "test", postgres.Owner, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	for _, role := range []postgres.Role{postgres.API, postgres.System} {
		one, err := postgres.Open(t.Context(), dsn, "test", role, 1)
		if err != nil {
			t.Fatal(err)
		}
		var count int
		if err := one.QueryRow(t.Context(), "SELECT count(*) FROM component_executions").Scan(&count); err != nil {
			t.Errorf("as %s: %v", role, err)
		}
		one.Close()
	}
	if _, err := pool.Exec(t.Context(), "SELECT make_partitions(week_of(now()) + interval '28 days')"); err != nil {
		t.Errorf("the owner creates partitions: %v", err)
	}
}

func TestAUserWhoDoesNotOwnTheDatabaseGetsTheRightsToRevoke(t *testing.T) {
	_ = pgtest.DSN(t) // creating the template creates the roles, as an administrator would
	admin, user, dsn := owned(t)
	inDatabase, err := pgx.ParseConfig(pgtest.ServerDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	inDatabase.Database = user
	there, err := pgx.ConnectConfig(t.Context(), inDatabase)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = there.Close(context.Background()) }()
	for _, statement := range []string{
		"GRANT weft_api, weft_system TO " + user, "ALTER DATABASE " + user + " OWNER TO " + inDatabase.User, "GRANT CREATE ON DATABASE " + user + " TO " + user,
	} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := there.Exec(t.Context(), "GRANT ALL ON SCHEMA public TO "+user); err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.OpenWithoutTimeouts(t.Context(), dsn, "test", postgres.Owner, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	cure := "REVOKE TEMPORARY ON DATABASE " + user + " FROM PUBLIC"
	if err := postgres.Migrate(t.Context(), pool); err == nil || !strings.Contains(err.Error(), cure) {
		t.Fatalf("got %v", err)
	}
	if _, err := there.Exec(t.Context(), cure); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Errorf("after the change: %v", err)
	}
}
