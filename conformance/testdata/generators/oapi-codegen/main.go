// Command oapi-codegen tells the story of story.ts with a client of oapi-codegen. The package
// client exists only while TestGeneratedClientsAreServedWithRequiredMembersAlone builds this.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	clients "github.com/weft-automation/weft/conformance/clients/go"
	"github.com/weft-automation/weft/conformance/signers"
	"github.com/weft-automation/weft/conformance/testdata/generators/oapi-codegen/client"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// must returns the answer with status 200, and panics with what came instead.
func must[T any](answer *T, body []byte, err error) *T {
	if err != nil || answer == nil {
		panic(fmt.Sprintf("%v: %s", err, body))
	}
	return answer
}

type story struct {
	Modules   []string                   `json:"modules"`
	Execution *client.ComponentExecution `json:"execution"`
	Statuses  []string                   `json:"statuses"`
	Workflow  string                     `json:"workflow"`
	Run       *client.WorkflowRun        `json:"run"`
	Listed    bool                       `json:"listed"`
	Schedule  *client.Schedule           `json:"schedule"`
	Missing   string                     `json:"missing"`
}

func run(ctx context.Context) error {
	signer, err := signers.NewSigner(os.Getenv("WEFT_KEY"), os.Getenv("WEFT_SECRET"))
	if err != nil {
		return err
	}
	signed := &http.Client{Transport: clients.Transport{Signer: signer}}
	weft, err := client.NewClientWithResponses(os.Getenv("WEFT_URL"), client.WithHTTPClient(signed))
	if err != nil {
		return err
	}
	var s story
	s.components(ctx, weft)
	s.workflows(ctx, weft)
	return json.NewEncoder(os.Stdout).Encode(s)
}

func (s *story) components(ctx context.Context, weft *client.ClientWithResponses) {
	catalogue, err := weft.ListSystemComponentsWithResponse(ctx, &client.ListSystemComponentsParams{})
	for _, component := range *must(catalogue.JSON200, catalogue.Body, err) {
		s.Modules = append(s.Modules, component.Module)
	}
	accepted, err := weft.ExecuteComponentWithResponse(ctx, nil, client.ExecuteComponentRequest{Module: "RANDOM_UUID", Input: map[string]any{}, Config: map[string]any{}})
	id := must(accepted.JSON200, accepted.Body, err).ID
	stream, err := weft.StreamComponentExecutionWithResponse(ctx, id, nil)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(stream.Body)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var event client.ComponentExecutionEvent
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				panic(err)
			}
			s.Statuses = append(s.Statuses, string(event.Status))
		}
	}
	execution, err := weft.GetComponentExecutionWithResponse(ctx, id)
	s.Execution = must(execution.JSON200, execution.Body, err)
	id[0] ^= 1
	missing, err := weft.GetComponentExecutionWithResponse(ctx, id)
	s.Missing = string(must(missing.ApplicationProblemJSON404, missing.Body, err).Code)
}

func (s *story) workflows(ctx context.Context, weft *client.ClientWithResponses) {
	saved, err := weft.CreateWorkflowWithResponse(ctx, nil, client.CreateWorkflowRequest{
		Name: "oapi-codegen",
		Components: []client.NewWorkflowComponent{
			{ID: "start", Module: "ON_SCHEDULE", Config: &client.ComponentConfig{"cron": "0 0 1 1 *"}},
			{ID: "draw", Module: "RANDOM_UUID"},
		},
		SequenceEdges: &[]client.NewSequenceEdge{{ID: "first", From: "start", To: "draw"}},
	})
	workflow := must(saved.JSON200, saved.Body, err).ID
	s.Workflow = workflow.String()
	triggered, err := weft.TriggerWorkflowWithResponse(ctx, workflow, nil, client.TriggerWorkflowRequest{})
	id := must(triggered.JSON200, triggered.Body, err).RunID
	stop, err := strconv.ParseInt(os.Getenv("WEFT_DEADLINE"), 10, 64) // in milliseconds since 1970
	if err != nil {
		panic(err)
	}
	for s.Run == nil || !slices.Contains([]string{"COMPLETED", "FAILED", "CANCELED"}, string(s.Run.Status)) {
		if s.Run != nil && time.Now().UnixMilli() >= stop {
			panic(fmt.Sprintf("not finished by WEFT_DEADLINE: %+v", *s.Run))
		}
		run, err := weft.GetWorkflowRunWithResponse(ctx, id, nil)
		s.Run = must(run.JSON200, run.Body, err)
	}
	runs, err := weft.ListWorkflowRunsWithResponse(ctx, nil)
	for _, run := range must(runs.JSON200, runs.Body, err).Data {
		s.Listed = s.Listed || run.ID == id
	}
	schedule, err := weft.CreateScheduleWithResponse(ctx, nil, client.CreateScheduleRequest{WorkflowID: workflow})
	s.Schedule = must(schedule.JSON200, schedule.Body, err)
}
