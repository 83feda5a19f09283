package cli_test

import (
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/person"
	"github.com/weft-automation/weft/internal/postgres"
	"github.com/weft-automation/weft/internal/postgres/pgtest"
)

func TestTheFirstOwnerIsMadeByWhoReachesTheDatabase(t *testing.T) {
	const password = "correct horse battery staple"
	environ := []string{"DATABASE_URL=" + pgtest.DSN(t)}
	run(t, environ, password+"\n", "admin", "owner", "Acme", "Ada@example.org").check(t, 1, "", `there is no workspace "Acme"`)
	run(t, environ, "short\n", "admin", "owner", "Acme", "Ada@example.org", "--new-workspace").check(t, 1, "", "12 to 256 characters")
	run(t, environ, password+"\n", "admin", "owner", "Acme", "nobody", "--new-workspace").check(t, 1, "", "not an e-mail address")
	for _, name := range []string{"", " ", strings.Repeat("é", 201), "a\nb", "a\x1b[31m"} {
		run(t, environ, password+"\n", "admin", "owner", name, "Ada@example.org", "--new-workspace").check(t, 1, "", "name of a workspace")
	}
	run(t, environ, password+"\n", "admin", "owner", "Acme", "Ada@example.org").check(t, 1, "", `there is no workspace "Acme"`) // none is left without its owner
	run(t, environ, password+"\n", "admin", "owner", "Acme", "Ada@example.org", "--new-workspace").check(t, 0, "", "ada@example.org is an owner")
	pool, err := postgres.Open(t.Context(), environ[0][len("DATABASE_URL="):], "test", postgres.Owner, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if !person.Known(t.Context(), pool, "ada@example.org", password) {
		t.Error("the password is not the one that was given")
	}
	// Again, and in another workspace: the account stays as it is, and nobody asks.
	for _, name := range []string{"Acme", "Other"} {
		run(t, append(environ, "WEFT_ADMIN_PASSWORD=another long password"), "", "admin", "owner", name, "Ada@example.org", "--new-workspace").
			check(t, 0, "", "keep its password; weft admin password ada@example.org")
	}
	run(t, environ, "", "admin", "owner", "Acme", "ada@example.org").check(t, 0, "", "is an owner of the workspace Acme")
	if !person.Known(t.Context(), pool, "ada@example.org", password) {
		t.Error("the password changed")
	}
	run(t, append(environ, "WEFT_ADMIN_PASSWORD=another long password"), "", "admin", "password", "ada@example.org").check(t, 0, "", "another password")
	if !person.Known(t.Context(), pool, "ada@example.org", "another long password") {
		t.Error("the password is not that of the environment")
	}
	run(t, environ, "", "admin", "password", "ada@example.org").check(t, 1, "", "there is no password: set WEFT_ADMIN_PASSWORD")
	for _, command := range []string{"owner", "password"} {
		run(t, nil, "", "admin", command, "--help").check(t, 0, "WEFT_ADMIN_PASSWORD", "")
	}
	run(t, environ, password+"\n", "admin", "password", "Ada@example.org").check(t, 0, "", "ada@example.org has another password")
	run(t, environ, password+"\n", "admin", "password", "bob@example.org").check(t, 1, "", "Nobody has an account")
	if !person.Known(t.Context(), pool, "ada@example.org", password) {
		t.Error("the password is not the one that was given")
	}
}
