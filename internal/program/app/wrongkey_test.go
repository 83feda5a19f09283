package app

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/client"
)

// Other processes could not open what a process with a wrong master key sealed.
func TestAProcessWithAWrongMasterKeyIsNotReadyAndAcceptsNothing(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	ring, err := keyring("q6vtFOyNrJVmMVBbMVPH1wAMvW0KKkm8zYkTmvHVqWk=", "")
	if err != nil {
		t.Fatal(err)
	}
	second := startOn(t, w.dsn, io.Discard, func(c *Config) { c.Keyring = ring })
	answer, err := http.Get(second.URL() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "/checks/master_key") {
		t.Errorf("got readiness %s %s (%v)", answer.Status, text, err)
	}
	signer, err := client.NewSigner(w.key.APIKey, w.key.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := client.New(second.URL(), signer, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := api.ExecuteComponentRequest{Module: "HASH", Input: json.RawMessage(`{"data":"a"}`), Config: json.RawMessage(`{}`)}
	if _, _, err := wrong.Execute(t.Context(), call, nil); err == nil || !strings.Contains(err.Error(), string(fault.Unavailable)) {
		t.Errorf("a submission returned %v", err)
	}
	if _, _, err := w.client.Execute(t.Context(), call, nil); err != nil {
		t.Errorf("the process with the correct key returns %v", err)
	}
}
