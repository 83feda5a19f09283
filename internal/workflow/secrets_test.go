package workflow_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
)

const canary = "canary-5f0c6f2e54e4"

// dump returns the content of all workflow tables.
func (b *bench) dump(t *testing.T) string {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), b.dsn, "dump")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var all bytes.Buffer
	for _, table := range []string{"workflows", "workflow_versions", "workflow_secrets", "audit_events"} {
		if _, err := conn.PgConn().CopyTo(t.Context(), &all, "COPY (SELECT t.* FROM "+table+" t) TO STDOUT"); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

func TestMT05SecretLiteralsAreSealedAndShownToNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, draft("w", `[{"id":"call","module":"CALL","input":{"headers":{"Authorization":"`+canary+`","X-Empty":"","X-Env":"Bearer {{env.TOKEN}}","X-Mixed":"`+canary+`{{env.TOKEN}}"}},"config":{"url":"https://a.test","token":"`+canary+`"}}]`))
	const shown = `"config":{"url":"https://a.test","token":"[redacted]"},"id":"call","input":{"headers":{"Authorization":"[redacted]","X-Empty":"","X-Env":"Bearer {{env.TOKEN}}","X-Mixed":"[redacted]"}}`
	if !strings.Contains(string(made.Components), shown) {
		t.Errorf("shown: %s", made.Components)
	}
	loaded := func(number *int32) string {
		l, err := b.Load(b.ctx, b.scoped, b.workspace, made.ID, number)
		if err != nil {
			t.Fatal(err)
		}
		c, _ := l.Plan.Component("call")
		return string(c.Input) + string(c.Config)
	}
	if got := loaded(nil); strings.Count(got, canary) != 3 {
		t.Errorf("loaded: %s", got)
	}
	// An update stores a new value and keeps the other secrets.
	if got, err := b.update(made.ID, "call", `{"url":"https://b.test"}`); err != nil || strings.Contains(string(got.Config), canary) {
		t.Errorf("%+v, %v", got, err)
	}
	if got := loaded(nil); strings.Count(got, canary) != 3 || !strings.Contains(got, "b.test") {
		t.Errorf("after an update: %s", got)
	}
	if _, err := b.update(made.ID, "call", `{"token":"another-`+canary+`"}`); err != nil {
		t.Fatal(err)
	}
	if got := loaded(nil); !strings.Contains(got, "another-"+canary) {
		t.Errorf("after a new value: %s", got)
	}
	// A definition can be saved again in the form in which it was shown.
	d := draft("w", "")
	now, err := b.Get(b.ctx, b.workspace, made.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Components = now.Components
	if _, err := b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: d}); err != nil {
		t.Fatal(err)
	}
	if got := loaded(nil); strings.Count(got, canary) != 3 || !strings.Contains(got, "another-"+canary) {
		t.Errorf("after a round: %s", got)
	}
	if got := loaded(new(int32(1))); strings.Count(got, canary) != 3 || strings.Contains(got, "another") {
		t.Errorf("version 1: %s", got)
	}
	if text := b.dump(t); strings.Contains(text, canary) || !strings.Contains(text, "[redacted]") {
		t.Error("the tables contain the secret")
	}
	// [redacted] without a stored value is an error, for new and existing components.
	_, _, err = b.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: d})
	if got := faults(t, err); !slices.Equal(got, []string{"/components/0/input/headers/Authorization", "/components/0/input/headers/X-Mixed", "/components/0/config/token"}) {
		t.Errorf("got %v", got)
	}
	d.Components = bytes.Replace(now.Components, []byte(`"id":"call"`), []byte(`"id":"renamed"`), 1)
	_, err = b.Replace(b.ctx, workflow.ReplaceParams{WorkspaceID: b.workspace, WorkflowID: made.ID, Draft: d})
	if got := faults(t, err); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

// An error in a secret shows the place of the secret, not its value.
func TestErrorInSecretDoesNotShowIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, _, err := b.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: draft("w", `[{"id":"call","module":"CALL","input":{"headers":{"A":["`+canary+`"]}},"config":{"url":"https://a.test"}}]`)})
	if got := faults(t, err); !slices.Equal(got, []string{"/components/0/input/headers/A"}) || strings.Contains(err.Error(), canary) {
		t.Errorf("%v: %v", got, err)
	}
}

func TestLoadReturnsCurrentVersionUnlessNumberIsGiven(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := draft("w", one)
	d.InputSchema = json.RawMessage(`{"type":"object","required":["a"]}`)
	made := b.create(t, d)
	first, err := b.Load(b.ctx, b.scoped, b.workspace, made.ID, nil)
	if err != nil || first.Version != 1 || first.Status != "ACTIVE" || fault.CodeOf(first.Input.Check(t.Context(), "/input", json.RawMessage(`{}`))) != fault.InvalidInput {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := b.Load(b.ctx, b.scoped, b.workspace, made.ID, nil); err != nil || again.Plan != first.Plan {
		t.Errorf("a version was compiled twice: %v", err)
	}
	if _, err := b.update(made.ID, "call", `{"url":"https://b.test"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Archive(b.ctx, b.workspace, made.ID, nil); err != nil {
		t.Fatal(err)
	}
	now, err := b.service(t).Load(b.ctx, b.scoped, b.workspace, made.ID, nil)
	if err != nil || now.Version != 2 || now.Status != "ARCHIVED" || now.Plan == first.Plan {
		t.Errorf("%+v, %v", now, err)
	}
	if old, err := b.Load(b.ctx, b.scoped, b.workspace, made.ID, new(int32(1))); err != nil || old.Plan != first.Plan || old.Status != "ARCHIVED" {
		t.Errorf("%+v, %v", old, err)
	}
}
