package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
	"github.com/weft-automation/weft/internal/secret/vault"
)

func ring(t *testing.T, seeds ...byte) *seal.Keyring {
	t.Helper()
	keys := make([]seal.Key, len(seeds))
	for i, seed := range seeds {
		keys[i] = seal.Key{ID: "k" + string('a'+seed), Secret: [32]byte{seed, 1, 2, 3}}
	}
	r, err := seal.NewKeyring(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// system returns a pool with the role of the vault, and two workspaces.
func system(t *testing.T) (pool *pgxpool.Pool, one, two uuid.UUID) {
	t.Helper()
	dsn := pgtest.DSN(t)
	open := func(role postgres.Role) *pgxpool.Pool {
		pool, err := postgres.Open(t.Context(), dsn, "test", role, 8)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	owner := open(postgres.Owner)
	ids := make([]uuid.UUID, 2)
	for i := range ids {
		var err error
		if ids[i], err = workspace.Create(t.Context(), owner, workspace.CreateParams{Name: "test " + string(rune('a'+i)), Plan: plan.Starter}); err != nil {
			t.Fatal(err)
		}
	}
	return open(postgres.System), ids[0], ids[1]
}

const secret = `{"key":"of the house"}`

func TestMT06ASecretOutputOpensOnlyInItsPlace(t *testing.T) {
	t.Parallel()
	pool, one, two := system(t)
	v := vault.New(pool, ring(t, 1))
	at := vault.Place{WorkspaceID: one, Row: uuid.New(), Field: vault.Output}
	stored, err := v.SealJSON(t.Context(), at, json.RawMessage(secret))
	if err != nil || !vault.Sealed(stored) || !json.Valid(stored) || strings.Contains(string(stored), "house") {
		t.Fatalf("the value is stored as %s, %v", stored, err)
	}
	for name, v := range map[string]*vault.Vault{"the same process": v, "another": vault.New(pool, ring(t, 1)), "one with more keys": vault.New(pool, ring(t, 2, 1))} {
		if plain, err := v.OpenJSON(t.Context(), at, stored); err != nil || string(plain) != secret {
			t.Errorf("%s opens %s, %v", name, plain, err)
		}
	}
	for name, other := range map[string]vault.Place{
		"another workspace": {WorkspaceID: two, Row: at.Row, Field: at.Field}, "another row": {WorkspaceID: one, Row: uuid.New(), Field: at.Field},
		"another field": {WorkspaceID: one, Row: at.Row, Field: vault.Input},
	} {
		if _, err := v.OpenJSON(t.Context(), other, stored); !errors.Is(err, seal.ErrUnsealable) {
			t.Errorf("in %s: %v", name, err)
		}
	}
	for _, text := range []string{`"\u0000"`, `"\u0000x"`, `"\u0000` + secret + `"`, `"\u0000AQ=="`, `"\u0000e30="`, "\x01", "\x01\x30"} {
		if _, err := v.OpenJSON(t.Context(), at, json.RawMessage(text)); !errors.Is(err, seal.ErrUnsealable) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Values of an earlier version, which didn't seal, are returned unchanged and without a query.
func TestUnsealedValuesAreReturnedUnchanged(t *testing.T) {
	t.Parallel()
	var none *vault.Vault
	for _, stored := range []string{"", `{}`, secret, `[1,2]`, `null`, `"a text"`, `""`} {
		if got, err := none.OpenJSON(t.Context(), vault.Place{}, json.RawMessage(stored)); err != nil || string(got) != stored {
			t.Errorf("%s became %s, %v", stored, got, err)
		}
		if got, err := none.Open(t.Context(), vault.Place{}, []byte(stored)); err != nil || string(got) != stored {
			t.Errorf("%s became %s, %v", stored, got, err)
		}
	}
}

// A workspace has one key for each master key, even if several processes create the key at once. A
// process without the master key returns UNAVAILABLE.
func TestMT07AWorkspaceHasAKeyForEachMasterKey(t *testing.T) {
	t.Parallel()
	pool, one, _ := system(t)
	at := vault.Place{WorkspaceID: one, Row: uuid.New(), Field: vault.Body}
	var stored [16][]byte
	var running sync.WaitGroup
	for i := range stored {
		running.Go(func() {
			var err error
			if stored[i], err = vault.New(pool, ring(t, 1)).Seal(context.Background(), at, []byte(secret)); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	for _, of := range stored {
		if plain, err := vault.New(pool, ring(t, 1)).Open(t.Context(), at, of); err != nil || string(plain) != secret {
			t.Errorf("opened %s, %v", plain, err)
		}
	}
	keys := func() (n int) {
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM output_keys").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := keys(); n != 1 {
		t.Errorf("there are %d keys", n)
	}
	if _, err := vault.New(pool, ring(t, 2, 1)).Seal(t.Context(), at, []byte(secret)); err != nil || keys() != 2 {
		t.Errorf("under another master key there are %d keys, %v", keys(), err)
	}
	if _, err := vault.New(pool, ring(t, 2)).Open(t.Context(), at, stored[0]); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("without the master key: %v", err)
	}
}

// A standby that takes over may lack the last writes, such as the key of a workspace. A process that
// cached such a key seals values under it for at most a minute. All processes can open later values.
func TestMT07AKeyThatTheDatabaseLostIsCreatedAgain(t *testing.T) {
	t.Parallel()
	pool, one, _ := system(t)
	at := vault.Place{WorkspaceID: one, Row: uuid.New(), Field: vault.Output}
	now := time.Now()
	v := vault.At(pool, ring(t, 1), func() time.Time { return now })
	if _, err := v.Seal(t.Context(), at, []byte(secret)); err != nil {
		t.Fatal(err)
	}
	owner, err := postgres.Open(t.Context(), pool.Config().ConnString(), "test", postgres.Owner, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	if _, err := owner.Exec(t.Context(), "DELETE FROM output_keys"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	stored, err := v.Seal(t.Context(), at, []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := vault.New(pool, ring(t, 1)).Open(t.Context(), at, stored); err != nil || string(plain) != secret {
		t.Errorf("in another process it opens as %s, %v", plain, err)
	}
}
