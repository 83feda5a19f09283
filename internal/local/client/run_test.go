package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
)

func TestStagesOfARunArePassedOneByOne(t *testing.T) {
	text := `{"id":"019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f","runStages":[{"componentId":"a","output":{"n":1}},{"componentId":"b","output":"]}"}],"status":"FAILED","output":{"n":"<1>"}}`
	for cut, want := range map[int]string{
		len(text): "", len(text) - 1: "EOF", 100: "EOF", 1: "EOF", 0: "EOF",
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text[:cut]) })
		var seen []string
		run, err := s.client(t).Run(t.Context(), uuid.Nil, func(stage api.RunStage) { seen = append(seen, stage.ComponentID+string(stage.Output)) })
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("truncated to %s: got error %v", text[:cut], err)
			}
			continue
		}
		if err != nil || run.Status != "FAILED" || string(run.Output) != `{"n":"<1>"}` || fmt.Sprint(seen) != `[a{"n":1} b"]}"]` {
			t.Errorf("%v: %+v, stages %q", err, run, seen)
		}
	}
	for _, other := range []string{`[]`, `{"runStages":null}`, `null`} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, other) })
		if _, err := s.client(t).Run(t.Context(), uuid.Nil, func(api.RunStage) {}); err == nil || !strings.Contains(err.Error(), "the JSON is not a run") {
			t.Errorf("%s: got error %v", other, err)
		}
	}
}

func TestRunIsStreamedAfterAnEvent(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		after := r.Header.Get("Last-Event-ID")
		fmt.Fprintf(w, "id: 8\ndata: {\"seq\":8,\"status\":\"EXECUTING\"}\n\nid: 9\ndata: {\"seq\":9,\"status\":\"CANCELED\",\"error\":%q}\n\nmore", after)
	})
	for after, want := range map[int64]string{-1: `8 9""`, 0: `8 9"0"`, 7: `8 9"7"`} {
		var seen []string
		for event, err := range s.client(t).StreamRun(t.Context(), uuid.Nil, after) {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, fmt.Sprint(event.Seq)+string(event.Error))
		}
		if strings.Join(seen, " ") != want {
			t.Errorf("after %d: %q", after, seen)
		}
	}
}
