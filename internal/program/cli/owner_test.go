package cli_test

import (
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

func TestFirstOwnerIsCreatedWithDatabaseAccess(t *testing.T) {
	const password = "correct horse battery staple"
	environ := []string{"DATABASE_URL=" + pgtest.DSN(t)}
	run(t, environ, password+"\n", "admin", "owner", "Acme", "Ada@example.org").check(t, 4, "", `workspace "Acme" not found. Add --new-workspace`)
	run(t, environ, "short\n", "admin", "owner", "Acme", "Ada@example.org", "--new-workspace").check(t, 6, "", "create an owner: the password must have 12 to 256 characters")
	run(t, environ, password+"\n", "admin", "owner", "Acme", "nobody", "--new-workspace").check(t, 6, "", "not a valid e-mail address")
	for _, name := range []string{"", " ", strings.Repeat("é", 201), "a\nb", "a\x1b[31m"} {
		run(t, environ, password+"\n", "admin", "owner", name, "Ada@example.org", "--new-workspace").check(t, 6, "", "name of a workspace")
	}
	run(t, environ, password+"\n", "admin", "owner", "Acme", "Ada@example.org").check(t, 4, "", `workspace "Acme" not found`) // none is left without its owner
	run(t, environ, password+"\n", "admin", "owner", "Acme", "Ada@example.org", "--new-workspace").check(t, 0, "", "ada@example.org is an owner")
	pool, err := postgres.Open(t.Context(), environ[0][len("DATABASE_URL="):], "test", postgres.Owner, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if !person.PasswordMatches(t.Context(), pool, "ada@example.org", password) {
		t.Error("the given password does not sign in")
	}
	// In another workspace, or again, only if the operator names the existing account.
	for _, name := range []string{"Acme", "Other"} {
		again := []string{"admin", "owner", name, "Ada@example.org", "--new-workspace"}
		run(t, environ, password+"\n", again...).check(t, 1, "", "has an account already. Add --existing")
		run(t, append(environ, "WEFT_ADMIN_PASSWORD=another long password"), "", append(again, "--existing")...).
			check(t, 0, "", "keeps its password. To set a new password, run weft admin password ada@example.org")
	}
	run(t, environ, password+"\n", "admin", "owner", "Acme", "bob@example.org", "--existing").check(t, 1, "", "has no account. Leave out --existing")
	if !person.PasswordMatches(t.Context(), pool, "ada@example.org", password) {
		t.Error("the password changed")
	}
	run(t, append(environ, "WEFT_ADMIN_PASSWORD=another long password"), "", "admin", "password", "ada@example.org").check(t, 0, "", "a new password")
	if !person.PasswordMatches(t.Context(), pool, "ada@example.org", "another long password") {
		t.Error("the password of the environment does not sign in")
	}
	run(t, environ, "", "admin", "password", "ada@example.org").check(t, 1, "", "the password is missing: set WEFT_ADMIN_PASSWORD")
	for _, command := range []string{"owner", "password"} {
		run(t, nil, "", "admin", command, "--help").check(t, 0, "WEFT_ADMIN_PASSWORD", "")
	}
	run(t, environ, password+"\n", "admin", "password", "Ada@example.org").check(t, 0, "", "ada@example.org has a new password")
	run(t, environ, password+"\n", "admin", "password", "bob@example.org").check(t, 4, "", "No account has this e-mail address")
	if !person.PasswordMatches(t.Context(), pool, "ada@example.org", password) {
		t.Error("the given password does not sign in")
	}
}

func TestOwnerOfAnUnverifiedAccountNeedsANewPassword(t *testing.T) {
	const old, fresh = "correct horse battery staple", "another long password"
	environ := []string{"DATABASE_URL=" + pgtest.DSN(t)}
	run(t, environ, old+"\n", "admin", "owner", "Acme", "ada@example.org", "--new-workspace").check(t, 0, "", "is an owner")
	pool, err := postgres.Open(t.Context(), environ[0][len("DATABASE_URL="):], "test", postgres.Owner, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	unverify := func() {
		t.Helper()
		if _, err := pool.Exec(t.Context(), "UPDATE users SET verified_at = NULL"); err != nil {
			t.Fatal(err)
		}
	}
	unverify()
	again := []string{"admin", "owner", "Other", "ada@example.org", "--new-workspace", "--existing"}
	run(t, environ, "", again[:len(again)-1]...).check(t, 1, "", "so it needs a new password")
	run(t, environ, "", again...).check(t, 1, "", "the password is missing")
	run(t, environ, fresh+"\n", again...).check(t, 0, "", "was not verified before. Now the address is verified")
	if person.PasswordMatches(t.Context(), pool, "ada@example.org", old) || !person.PasswordMatches(t.Context(), pool, "ada@example.org", fresh) {
		t.Error("the password was not replaced")
	}
	unverify()
	run(t, environ, old+"\n", "admin", "password", "ada@example.org", "--verified").check(t, 0, "", "The address is verified now.")
	if _, verified, err := person.HasAccount(t.Context(), pool, "ada@example.org"); err != nil || !verified {
		t.Errorf("got verified %v (%v)", verified, err)
	}
}
