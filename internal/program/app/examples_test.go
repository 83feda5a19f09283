package app

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
)

func TestDevExamplesAreKeptAndFollowTheUpstreamsAddress(t *testing.T) {
	t.Parallel()
	w, dev := startWhole(t, nil), DevConfig{DataDir: t.TempDir()}
	workspaceID := w.tenant(t, "examples").id
	ctx := postgres.Scope(t.Context(), workspaceID)
	start := func(demoAddr string) map[string]uuid.UUID {
		t.Helper()
		ids, err := dev.examples(ctx, w.app.workflows, workspaceID, demoAddr)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	is := func(id uuid.UUID, version int32, part string) {
		t.Helper()
		got, err := w.app.workflows.Get(ctx, workspaceID, id, nil)
		if err != nil || got.Version != version || !strings.Contains(string(got.Components), part) {
			t.Fatalf("got version %d (%v): %s; want %d with %s", got.Version, err, got.Components, version, part)
		}
	}
	made := start("127.0.0.1:4001")
	fanOut, approval := made["fanOut"], made["approval"]
	for range 2 {
		if again := start("127.0.0.1:4001"); len(made) != 2 || !maps.Equal(again, made) {
			t.Fatalf("got %v, then %v", made, again)
		}
		is(fanOut, 1, "127.0.0.1:4001/prices")
	}
	start("127.0.0.1:4002")
	is(fanOut, 2, "127.0.0.1:4002/prices")
	is(approval, 1, "approved")

	// A start that was interrupted before it had recorded the new address.
	remembered, err := dev.readExamples()
	if err != nil {
		t.Fatal(err)
	}
	remembered.Demo = "127.0.0.1:4001"
	if err := writeFile(filepath.Join(dev.DataDir, examplesFile), remembered); err != nil {
		t.Fatal(err)
	}
	start("127.0.0.1:4001")
	is(fanOut, 3, "127.0.0.1:4001/prices")

	// Workflows that the user changed are left alone.
	name := "mine"
	if _, err := w.app.workflows.UpdateComponent(ctx, workflow.UpdateParams{WorkspaceID: workspaceID, WorkflowID: fanOut, ComponentID: "price", Name: &name}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.app.workflows.Archive(ctx, workspaceID, approval, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if left := start("127.0.0.1:4003"); !maps.Equal(left, map[string]uuid.UUID{"fanOut": fanOut}) {
			t.Fatalf("got active workflows %v", left)
		}
		is(fanOut, 4, "127.0.0.1:4001/prices")
	}

	// Another database in the same folder has no example workflows.
	workspaceID = w.tenant(t, "another").id
	ctx = postgres.Scope(t.Context(), workspaceID)
	if other := start("127.0.0.1:4003"); len(other) != 2 || other["fanOut"] == fanOut {
		t.Errorf("got workflows of another database %v", other)
	}
}

func TestDemoUpstreamReusesItsAddress(t *testing.T) {
	t.Parallel()
	dev := DevConfig{DataDir: t.TempDir()}
	first, err := dev.startDemo()
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dev.DataDir, examplesFile), examples{Demo: first.Addr}); err != nil {
		t.Fatal(err)
	}
	second, err := dev.startDemo()
	if err != nil || second.Addr == first.Addr {
		t.Fatalf("two demo upstreams at %s: %v", err, first.Addr)
	}
	defer second.Close()
	if answer, err := http.Get("http://" + first.Addr); err != nil || answer.Body.Close() != nil { // it serves, so Close reaches it
		t.Fatal(err)
	}
	first.Close()
	third, err := dev.startDemo()
	if err != nil || third.Addr != first.Addr {
		t.Fatalf("the demo upstream moved (%v), want %s", err, first.Addr)
	}
	third.Close()
	if err := os.WriteFile(filepath.Join(dev.DataDir, examplesFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dev.startDemo(); err == nil || !strings.Contains(err.Error(), "record of example workflows") {
		t.Errorf("a broken file returned %v", err)
	}
}
