package workflow_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/workflow"
)

// Faults in the form of the request and of the graph are returned together, whether the workflow is
// saved or only validated.
func TestFaultsOfTheFormHideNoFaultsOfTheGraph(t *testing.T) {
	b := setup(t)
	s := b.library(t)
	form := []fault.Detail{fault.NewDetail("/components/0/attempts", "must be at most 3")}
	broken := drawn(`{"id":"a","module":"HASH","attempts":9,"input":{"data":"x"},"config":{}},{"id":"b","module":"HASHH","config":{}}`, []string{"a next gone"}, nil)
	unreadable := broken
	unreadable.Components = json.RawMessage(`[{"id":"a","module":"HASH","attempts":"x"}]`)
	for name, c := range map[string]struct {
		draft workflow.Draft
		want  string
	}{
		"all faults":                    {broken, "/components/0/attempts /components/1/module /sequenceEdges/0/to"},
		"the form of an unreadable one": {unreadable, "/components/0/attempts"},
	} {
		t.Run(name, func(t *testing.T) {
			c.draft.Form = form
			_, _, created := s.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: c.draft})
			_, validated := s.Validate(b.ctx, b.workspace, c.draft)
			for _, err := range []error{created, validated} {
				failure, ok := errors.AsType[*fault.Error](err)
				if !ok || failure.Unprocessable {
					t.Fatalf("got %v", err)
				}
				var pointers []string
				for _, one := range failure.Details {
					pointers = append(pointers, one.Pointer)
				}
				if got := strings.Join(pointers, " "); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
		})
	}
}
