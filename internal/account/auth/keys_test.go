package auth_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

func TestAU15SecretIsReturnedOnceAndMatchesTheStoredKey(t *testing.T) {
	b := setup(t, auth.Options{})
	der, err := base64.StdEncoding.DecodeString(b.key.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	var stored []byte
	if err := b.pool.QueryRow(t.Context(), "SELECT public_key FROM api_keys WHERE id = $1", b.key.KeyID).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	seeded := ed25519.NewKeyFromSeed(der[len(der)-32:])
	if !seeded.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(stored)) {
		t.Error("the last 32 bytes of apiSecret are not the seed of the stored public key")
	}
	if !strings.HasPrefix(b.key.APIKey, "ws_") || len(b.key.APIKey) != 46 {
		t.Errorf("API key of %d characters", len(b.key.APIKey))
	}
	keys, err := b.keys.List(t.Context(), b.workspace)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	listed := fmt.Sprintf("%+v", keys[0])
	if strings.Contains(listed, b.key.APIKey) || strings.Contains(listed, b.key.APISecret) {
		t.Errorf("a list shows a secret: %s", listed)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("made", "key", b.key.Created)
	fmt.Fprintf(&log, "%v %+v %#v %s", b.key.Created, b.key.Created, b.key.Created, b.key.Created)
	if strings.Contains(log.String(), b.key.APIKey) || strings.Contains(log.String(), b.key.APISecret[20:]) {
		t.Errorf("printing a new key shows a secret: %s", log.String())
	}
}

func TestAU13NoTableHoldsAKeyOrASecret(t *testing.T) {
	b := setup(t, auth.Options{})
	issued := []signer{b.key}
	for range 4 {
		issued = append(issued, b.newKey(t, b.workspace))
	}
	dump := dumpAll(t, b)
	if !strings.Contains(dump, b.key.KeyID.String()) {
		t.Fatal("the dump does not hold the keys' rows")
	}
	for _, key := range issued {
		seed := key.private.Seed()
		for name, secret := range map[string]string{
			"key text": key.APIKey, "key text without prefix": key.APIKey[3:],
			"key text in hex": hex.EncodeToString([]byte(key.APIKey)), "apiSecret": key.APISecret,
			"seed in hex": hex.EncodeToString(seed), "seed in base64": base64.StdEncoding.EncodeToString(seed),
		} {
			if strings.Contains(dump, secret) {
				t.Errorf("the database holds the %s", name)
			}
		}
	}
}

// dumpAll copies every table of the database as text.
func dumpAll(t *testing.T, b *bundle) string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(),
		"SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	var dump bytes.Buffer
	for _, table := range tables {
		if _, err := conn.Conn().PgConn().CopyTo(t.Context(), &dump, "COPY (SELECT * FROM "+table+") TO STDOUT"); err != nil {
			t.Fatal(err)
		}
	}
	return dump.String()
}

func TestCreateChecksItsInput(t *testing.T) {
	b := setup(t, auth.Options{})
	cases := []struct {
		name, label, pointer string
		workflows            int
	}{
		{"no label", "", "/label", 0},
		{"blank label", "  ", "/label", 0},
		{"long label", strings.Repeat("é", 201), "/label", 0},
		{"control character", "a\nb", "/label", 0},
		{"too many workflows", "x", "/allowedWorkflowIds", 10_000},
		{"longest label", strings.Repeat("é", 200), "", 0},
	}
	for _, c := range cases {
		params := auth.CreateParams{WorkspaceID: b.workspace, Label: c.label, AllowedWorkflowIDs: make([]uuid.UUID, c.workflows)}
		_, err := b.keys.Create(t.Context(), params)
		if c.pointer == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != fault.InvalidInput || f.Details[0].Pointer != c.pointer {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestCreateRejectsWorkflowsThatTheWorkspaceDoesNotHave(t *testing.T) {
	b := setup(t, auth.Options{})
	own, foreign := b.newWorkflow(t, b.workspace), b.newWorkflow(t, b.newWorkspace(t))
	_, err := b.keys.Create(t.Context(), auth.CreateParams{
		WorkspaceID: b.workspace, Label: "x", AllowedWorkflowIDs: []uuid.UUID{uuid.Max, own, foreign},
	})
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || refused.Code != fault.InvalidInput {
		t.Fatalf("got %v", err)
	}
	var pointers []string
	for _, detail := range refused.Details {
		pointers = append(pointers, detail.Pointer)
	}
	if want := []string{"/allowedWorkflowIds/0", "/allowedWorkflowIds/2"}; !slices.Equal(pointers, want) {
		t.Errorf("the faults are at %q, want %q", pointers, want)
	}
	keys, err := b.keys.List(t.Context(), b.workspace)
	if err != nil || len(keys) != 1 {
		t.Errorf("the workspace has %d keys, want only that of the set-up; %v", len(keys), err)
	}
}

func TestRevokeStaysWithinTheWorkspaceAndRepeats(t *testing.T) {
	b := setup(t, auth.Options{})
	if _, err := b.keys.Revoke(t.Context(), b.newWorkspace(t), b.key.KeyID); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("by another workspace: %v", err)
	}
	if !auth.Usable(t.Context(), b.pool, b.key.APIKey) || auth.Usable(t.Context(), b.pool, "ws_other") {
		t.Error("a key is not usable, or an unknown one is")
	}
	for range 2 {
		if _, err := b.keys.Revoke(t.Context(), b.workspace, b.key.KeyID); err != nil {
			t.Fatal(err)
		}
	}
	if auth.Usable(t.Context(), b.pool, b.key.APIKey) {
		t.Error("a revoked key is usable")
	}
	keys, err := b.keys.List(t.Context(), b.workspace)
	if err != nil || len(keys) != 1 || keys[0].RevokedAt == nil {
		t.Errorf("%+v, %v", keys, err)
	}
}

// The two verifiers represent two nodes, each with traffic and a stream.
func TestAU11RevokedKeyIsRefusedWithinASecondAndItsStreamsEnd(t *testing.T) {
	b := setup(t, auth.Options{Now: time.Now})
	second, err := auth.NewVerifier(b.pool, auth.Options{FailureBurst: 1e9})
	if err != nil {
		t.Fatal(err)
	}
	other := b.newKey(t, b.workspace)
	nodes := []*auth.Verifier{b.verifier, second}
	var streams []context.Context
	for _, node := range nodes {
		principal, err := node.Verify(t.Context(), b.key.get(time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		stream, stop := node.UntilRevoked(t.Context(), principal)
		defer stop()
		streams = append(streams, stream)
	}
	stays, err := b.verifier.Verify(t.Context(), other.get(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	unaffected, stop := b.verifier.UntilRevoked(t.Context(), stays)
	defer stop()

	if _, err := b.keys.Revoke(t.Context(), b.workspace, b.key.KeyID); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	ended := [2]chan time.Duration{make(chan time.Duration, 1), make(chan time.Duration, 1)}
	for i, stream := range streams {
		context.AfterFunc(stream, func() { ended[i] <- time.Since(revoked) })
	}
	var accepted time.Duration
	traffic := time.NewTicker(2 * time.Millisecond)
	defer traffic.Stop()
	for range traffic.C {
		for _, node := range nodes {
			at := time.Since(revoked) // when the request came in
			if _, err := node.Verify(t.Context(), b.key.get(time.Now())); err == nil {
				accepted = at
			}
		}
		if time.Since(revoked)-accepted >= 500*time.Millisecond { // refused since then
			break
		}
	}
	if waittest.Timed() && accepted > time.Second {
		t.Errorf("accepted %v after the commit", accepted)
	}
	for i, stream := range streams {
		if took := <-ended[i]; waittest.Timed() && took > 5*time.Second || !errors.Is(context.Cause(stream), auth.ErrRevoked) {
			t.Errorf("ended %v after the commit by %v", took, context.Cause(stream))
		}
	}
	if unaffected.Err() != nil {
		t.Error("the stream of another key ended too")
	}
}
