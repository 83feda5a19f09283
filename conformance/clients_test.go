package conformance

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/local/demo"
)

// facts is the output of a journey: the results of using each feature.
type facts struct {
	Inline struct {
		ID, Status, UUID string
	}
	Polled struct {
		ID, First, Status, Digest string
	}
	Streamed struct {
		ID       string
		Statuses []string
		UUID     string
	}
	Run struct {
		ID         string
		Seqs       []int64
		Statuses   []string
		TotalUsage json.Number
		Prices     []string
	}
	Callback struct {
		ID, ExecutionID, Order, UUID string
		Altered                      int
	}
	Refused struct {
		Status        int
		Code, Pointer string
	}
}

// Users copy the clients, so each client must work on a bad network. It uses every feature of Weft
// against the service, over a connection that breaks and with a rate limit that rejects requests.
// The test compares the results that the client reports with the service's own records. Then the
// client verifies forged callbacks, and reads streams that end in every possible way.
func TestClientsOfOtherLanguages(t *testing.T) {
	t.Parallel()
	behind := target(t)
	if !behind.Near {
		t.Log("a deployment elsewhere cannot reach what the journeys listen on")
		return
	}
	for _, language := range waittest.Size([]language{languages[0], languages[2]}, languages) { // the others take a compiler
		t.Run(language.name, func(t *testing.T) {
			t.Parallel()
			folder, ok := language.built(t, behind)
			if !ok {
				return
			}
			t.Run("journey", func(t *testing.T) { journey(t, behind, language, folder) })
			t.Run("callbacks", func(t *testing.T) { forgeries(t, language, folder) })
			t.Run("streams", func(t *testing.T) { breaks(t, language, folder) })
		})
	}
}

func journey(t *testing.T, behind *probe.Target, language language, folder string) {
	road := newRoad(t, behind)
	write(t, filepath.Join(folder, "credentials.json"), journeyCredentials(t, behind, road))
	var got facts
	out, warnings := runBoth(t, folder, "", append(language.start("journey"), "credentials.json")...)
	if !bytes.Contains(warnings, []byte(`/invented`)) {
		t.Errorf("no warning of Weft-Ignored: %s", warnings)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	passes(t, behind, got.check)
	road.check(t, got)
}

// journeyCredentials writes a credentials.json with the address of the proxy, and an example of weft dev.
func journeyCredentials(t *testing.T, behind *probe.Target, road *road) []byte {
	t.Helper()
	var workflowID string
	passes(t, behind, func(p *probe.Trial) {
		var definition object
		p.NoError("the example", json.Unmarshal([]byte(demo.Workflows(strings.TrimPrefix(road.upstream.URL, "http://"))["fanOut"]), &definition))
		workflowID = create(p, definition).ID
	})
	credentials, err := json.Marshal(map[string]any{
		"baseUrl": road.baseURL, "apiKey": behind.APIKey, "apiSecret": behind.APISecret,
		"workflows": map[string]string{"fanOut": workflowID},
	})
	if err != nil {
		t.Fatal(err)
	}
	return credentials
}

// sha256OfHallo is the digest of "hällo" in UTF-8, computed with sha256sum.
const sha256OfHallo = "0x0fbc7403536f425ad5498d9cd846497f5371ba8374b1aa583c79d2f0c87501ff"

// check compares the facts with the records of the service.
func (f facts) check(t *probe.Trial) {
	uuidOf := func(id string) string {
		record := t.Record(id)
		t.Equal("status of "+id, record.Status, api.ExecutionStatus("COMPLETED"))
		var output struct{ UUID, Digest string }
		t.NoError("output", json.Unmarshal(record.Output, &output))
		return output.UUID + output.Digest
	}
	t.Equal("inline status", f.Inline.Status, "COMPLETED")
	t.Equal("inline uuid", f.Inline.UUID, uuidOf(f.Inline.ID))

	t.Equal("polled, the first status", f.Polled.First, "CREATED")
	t.Equal("polled status", f.Polled.Status, "COMPLETED")
	t.Equal("polled digest", f.Polled.Digest, sha256OfHallo)
	t.Equal("the service's digest", uuidOf(f.Polled.ID), sha256OfHallo)

	last := len(f.Streamed.Statuses) - 1
	t.Check(last >= 0 && slices.Index(f.Streamed.Statuses, "COMPLETED") == last, "streamed %v", f.Streamed.Statuses)
	t.Equal("streamed uuid", f.Streamed.UUID, uuidOf(f.Streamed.ID))

	run := probe.Decode[api.WorkflowRun](t, t.Get(runPath(f.Run.ID)))
	t.Equal("status of the run", run.Status, api.RunStatus("COMPLETED"))
	t.Equal("usage of the run", f.Run.TotalUsage.String(), string(t.JSON(run.TotalUsage)))
	alike(t, "output of the run", run.Output, map[string]any{"symbols": []string{"BTC", "ETH", "SOL", "USDC"}, "prices": f.Run.Prices})
	log := probe.Decode[api.RunEventPage](t, t.Get(runPath(f.Run.ID)+"/events?limit=100")).Data
	t.Check(len(log) > 1, "%d events", len(log))
	var seqs []int64
	var statuses []string
	for _, event := range log {
		seqs, statuses = append(seqs, event.Seq), append(statuses, string(event.Status))
	}
	same(t, "events of the run, each once", f.Run.Seqs, seqs)
	same(t, "their statuses", f.Run.Statuses, statuses)

	t.Equal("X-Svc-Execution-Id", f.Callback.ExecutionID, f.Callback.ID)
	t.Equal("X-Order", f.Callback.Order, "4711")
	t.Equal("uuid of the callback", f.Callback.UUID, uuidOf(f.Callback.ID))
	delivered := t.Eventually(f.Callback.ID, "delivered", func(e api.ComponentExecution) bool { return e.Callback.DeliveredAt != nil })
	t.Equal("deliveries", delivered.Callback.AttemptCount, int32(1))
	t.Equal("answer to an altered callback", f.Callback.Altered, http.StatusUnauthorized)

	t.Equal("refused status", f.Refused.Status, http.StatusUnprocessableEntity)
	t.Equal("refused code", f.Refused.Code, "INVALID_INPUT")
	t.Equal("refused pointer", f.Refused.Pointer, "/input/data")
}
