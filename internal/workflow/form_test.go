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

// Names and forms of other languages are answered with what to write, and not with the advice for a
// missing input.
func TestSavesNameWhatToWriteForWordsOfOtherLanguages(t *testing.T) {
	b := setup(t)
	s := b.library(t)
	transform := func(expression string) string {
		return `{"id":"a","module":"TRANSFORM","config":{"expression":"` + expression + `"}}`
	}
	call := func(input, config string) string {
		return `{"id":"a","module":"API_CALL","input":{` + input + `},"config":{"apiUrl":"https://a.test/","method":"GET"` + config + `}}`
	}
	for components, want := range map[string]string{
		transform("null == 1"):               `component "a": write nil instead of null`,
		transform("True and undefined"):      `component "a": write true instead of True`,
		transform("None + x"):                `component "a": write nil instead of None; no input provides x, so the expression always fails; set or connect the input; there are no inputs`,
		call(`"body":"{{ None }}"`, ``):      `component "a": write nil instead of "None"`,
		call(`"body":"{{ secrets.A }}"`, ``): `component "a": write env instead of "secrets"`,
		call(`"apiUrl":"x"`, ``):             `is not a known field; apiUrl belongs into config`,
		call(`"url":"x"`, ``):                `is not a known field; write config.apiUrl`,
		call(``, `,"uri":"x"`):               `is not a known field; write config.apiUrl`,
		call(``, `,"body":"x"`):              `is not a known field; body belongs into input`,
		call(``, `,"Method":"x"`):            `is not a known field; write config.method`,
		call(``, `,"params":{}`):             `is not a known field; write input.query`,
		call(``, `,"followRedirect":true`):   `is not a known field; did you mean followRedirects?`,
		call(``, `,"colour":1`):              `is not a known field`,
		call(``, `,"followRedirects":"NO"`):  `component "a": must be a boolean, got a string; write false without quotes`,
		call(`"body":"{{ start.x"`, ``):      "component \"a\": a reference is not closed: expected }}. To write two braces as text, write {{ \"{{\" }}",
	} {
		draft := drawn(components, nil, nil)
		draft.Strict = true
		_, _, err := s.Create(b.ctx, workflow.CreateParams{WorkspaceID: b.workspace, Draft: draft})
		failure, ok := errors.AsType[*fault.Error](err)
		if !ok || len(failure.Details) == 0 || failure.Details[0].Message != want {
			t.Errorf("%s\ngot  %v\nwant %s", components, err, want)
		}
	}
}
