package conformance

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

// changeCases check the stream of a workspace.
var changeCases = []Case{
	{Part: "D2.12", Name: "changes/200 runs and executions that change, by ID and status", Run: changesReported},
	{Part: "D2.12", Name: "changes/200 a person's page hears what a key starts", Run: changesOfAPage, Needs: []probe.Need{probe.NeedOwner, probe.NeedForeign}},
}

// openChanges opens the stream of the workspace and reads its first event.
func openChanges(t *probe.Trial, r probe.Request) *probe.Stream {
	r.Path = "/v1/sdk/stream" + r.Path
	stream := t.StreamOf(r)
	first, ok := stream.Next()
	t.Check(ok && first.Name == "resync" && first.LastID == "", "the first event is %q %s", first.Name, first.Data)
	return stream
}

// awaitChange reads a stream until it reports the status of an ID.
// It returns the IDs that were reported until then.
func awaitChange(t *probe.Trial, stream *probe.Stream, kind api.WorkspaceEventKind, id, status string) (seen []string) {
	for {
		e, ok := stream.Next()
		t.Check(ok, "the stream ended")
		var change api.WorkspaceEvent
		t.NoError("event", json.Unmarshal(e.Data, &change))
		fields := []bool{change.Kind != nil, change.ID != nil, change.Status != nil}
		t.Check(!slices.Contains(fields, e.Name == "resync"), "an event named %q: %s", e.Name, e.Data)
		if e.Name == "resync" {
			continue
		}
		if seen = append(seen, change.ID.String()); change.ID.String() != id {
			continue
		}
		t.Equal("kind", *change.Kind, kind)
		if string(*change.Status) == status {
			return seen
		}
	}
}

func changesReported(t *probe.Trial) {
	stream := openChanges(t, probe.Request{Header: http.Header{"Last-Event-Id": {"x"}}})
	id := t.Execute(probe.RandomUUID().Waiting(15000)).ID.String()
	awaitChange(t, stream, api.WorkspaceEventKindExecution, id, "COMPLETED")
	waits := decodeWorkflow(t, t.Post(workflows, sketch([]object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "approved", "timeoutMs": 60_000})}, nil))).ID
	run := probe.Decode[api.TriggerResult](t, t.Post(workflowPath(waits), object{})).RunID.String()
	awaitChange(t, stream, api.WorkspaceEventKindRun, run, "EXECUTING")
	answer := t.Do(probe.Request{Method: http.MethodPut, Path: runPath(run) + "/cancellation", Body: []byte(`{}`)})
	t.Equal("cancel", answer.Status, http.StatusOK)
	awaitChange(t, stream, api.WorkspaceEventKindRun, run, "CANCELED")
}

func changesOfAPage(t *probe.Trial) {
	page := nobody("Cookie: " + cookie(t.SignIn()).Get("Cookie"))
	stream := openChanges(t, page(probe.Request{Path: "?workspace=" + t.Target().WorkspaceID}))
	foreign := probe.Decode[api.ComponentExecution](t, t.Do(submit(t, probe.RandomUUID().Waiting(15000), probe.Signing{As: t.Target().Foreign}))).ID.String()
	seen := awaitChange(t, stream, api.WorkspaceEventKindExecution, t.Execute(probe.RandomUUID()).ID.String(), "COMPLETED")
	t.Check(!slices.Contains(seen, foreign), "an execution of another workspace was reported")
}
