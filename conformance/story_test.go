package conformance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
)

// story sends the examples of the document to the service. The IDs and tokens that the service
// returns differ from those in the examples, so story maps the names in the example responses to
// those in the real responses.
type story struct {
	document object
	trial    *probe.Trial
	bearer   string
	known    map[string]string // the service's names and IDs, by those in the document's examples
	sent     map[string]bool   // "OPERATION EXAMPLE"
}

// resolve follows a reference of the document.
func (s *story) resolve(node any) object {
	here, _ := node.(object)
	ref, ok := here["$ref"].(string)
	if !ok {
		return here
	}
	var at any = s.document
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(object)[name]
	}
	return s.resolve(at)
}

// member follows names from a node.
func (s *story) member(node any, names ...string) object {
	here := s.resolve(node)
	for _, name := range names {
		here = s.resolve(here[name])
	}
	return here
}

// operation returns the operation with an operationId.
func (s *story) operation(id string) (method, path string, operation object) {
	for path, item := range s.member(s.document, "paths") {
		for method, node := range s.resolve(item) {
			if s.resolve(node)["operationId"] == id {
				return strings.ToUpper(method), path, s.resolve(node)
			}
		}
	}
	return "", "", nil
}

// examples returns the examples of a body by name. The example of its schema has the name schema.
func (s *story) examples(media object) map[string]any {
	all := map[string]any{}
	for name, example := range s.member(media, "examples") {
		all[name] = s.resolve(example)["value"]
	}
	if example, ok := media["example"]; ok {
		all["example"] = example
	}
	if list, ok := s.member(media, "schema")["examples"].([]any); ok {
		all["schema"] = list[0]
	}
	return all
}

// called returns text with the names from the document replaced by the names that the service
// returned.
func (s *story) called(text string) string {
	var pairs []string
	for documented, real := range s.known {
		pairs = append(pairs, documented, real)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

var named = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}$`)

// learn maps the names in an example to the names at the same place of a response.
func (s *story) learn(name string, example, answer any) {
	switch example := example.(type) {
	case object:
		answer, _ := answer.(object)
		for name, member := range example {
			s.learn(name, member, answer[name])
		}
	case []any:
		answer, _ := answer.([]any)
		for i := range min(len(example), len(answer)) {
			s.learn(name, example[i], answer[i])
		}
	case string:
		if real, ok := answer.(string); ok && (named.MatchString(example) || name == "token") {
			s.known[example] = real
		}
	}
}

// send sends one example and expects success. replacements are pairs of a parameter's name and the
// name whose value replaces the document's example.
func (s *story) send(id, name string, replacements ...string) object {
	s.sent[id+" "+name] = true
	method, template, operation := s.operation(id)
	request := probe.Request{Method: method, Path: template, Header: http.Header{}}
	parameters, _ := operation["parameters"].([]any)
	for _, node := range parameters {
		if p := s.resolve(node); p["in"] == "path" {
			value := s.called(p["example"].(string))
			for i := 0; i < len(replacements); i += 2 {
				if replacements[i] == p["name"] {
					value = s.called(replacements[i+1])
				}
			}
			request.Path = strings.Replace(request.Path, "{"+p["name"].(string)+"}", value, 1)
		}
	}
	for _, media := range s.member(operation, "requestBody", "content") {
		if example, ok := s.examples(s.resolve(media))[name]; ok {
			request.Body = []byte(s.called(string(s.trial.JSON(example))))
		}
	}
	if security, own := operation["security"].([]any); own {
		signs := slices.ContainsFunc(security, func(way any) bool { return way.(object)["ApiKey"] != nil })
		request.Unsigned = !signs
		if !signs && len(security) > 0 {
			request.Bearer = s.bearer
		}
	}
	if id == "receiveHook" {
		mac := hmac.New(sha256.New, []byte("correct-horse-battery"))
		mac.Write(request.Body)
		request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		request.Header.Set("X-Github-Delivery", uuid.NewString())
	}
	answer := s.trial.Do(request)
	s.trial.Check(answer.Status == http.StatusOK, "%s, example %s: %d %s", id, name, answer.Status, answer.Body)
	got := probe.Decode[object](s.trial, answer)
	shown := s.examples(s.member(operation, "responses", "200", "content", "application/json"))
	if same, ok := shown[name]; ok {
		s.learn("", same, got)
	} else {
		for _, first := range slices.Sorted(maps.Keys(shown)) {
			s.learn("", shown[first], got)
			break
		}
	}
	return got
}

// The examples of requests form one story, about Ada and her workspace, and the service must
// accept each of them unchanged.
func TestEveryExampleOfARequestIsTaken(t *testing.T) {
	behind := target(t)
	if deployment.pool == nil {
		t.Log("the story needs a separate workspace, which is created in the database")
		return
	}
	own := *behind
	ada(t, &own)
	s := &story{known: map[string]string{}, sent: map[string]bool{}}
	if err := json.Unmarshal(api.SpecJSON(), &s.document); err != nil {
		t.Fatal(err)
	}
	if err := probe.Run(t.Context(), &own, func(trial *probe.Trial) {
		s.trial = trial
		s.all()
	}); err != nil {
		t.Fatal(err)
	}
	for _, item := range s.member(s.document, "paths") {
		for _, node := range s.resolve(item) {
			operation := s.resolve(node)
			for _, media := range s.member(operation, "requestBody", "content") {
				for name := range s.examples(s.resolve(media)) {
					if id := operation["operationId"].(string); !s.sent[id+" "+name] {
						t.Errorf("nothing sends the example %s of %s", name, id)
					}
				}
			}
		}
	}
}

// ada creates the workspace of the story and its owner.
func ada(t *testing.T, own *probe.Target) {
	t.Helper()
	made, err := own.NewWorkspace(t.Context(), probe.Terms{Plan: "growth", Paid: 100, RPS: new(int32(1000)), RPH: new(int32(100_000))})
	if err != nil {
		t.Fatal(err)
	}
	own.Credentials = made
	account := person.Account{Email: "ada@example.org", Name: "Ada Lovelace", Password: "correct horse battery staple"}
	if _, err := person.CreateOwner(t.Context(), deployment.pool, uuid.MustParse(own.WorkspaceID), account); err != nil {
		t.Fatal(err)
	}
}

const (
	reportID  = "019aa5f2-6071-7283-9e95-0f1a2b3c4d5e"
	runID     = "019aa5f3-0a1b-7c2d-8e3f-4a5b6c7d8e9f"
	stageID   = "019aa5f3-0a2c-7d3e-9f40-5b6c7d8e9fa0"
	waitingID = "a run that waits"
)

// all sends every example, in an order in which each can succeed.
func (s *story) all() {
	s.bearer = s.send("createSession", "session")["token"].(string)
	for _, name := range []string{"message", "signature", "hash"} {
		s.send("checkSignature", name)
	}
	for _, name := range []string{"inline", "callback", "retried", "capped"} {
		s.send("executeComponent", name)
	}
	for _, name := range []string{"canceling", "schema"} {
		s.send("cancelComponentExecution", name)
	}
	for _, name := range []string{"schema", "balances", "report"} {
		s.send("createWorkflow", name)
	}
	for _, name := range []string{"schema", "balances"} {
		s.send("validateWorkflow", name)
	}
	for _, name := range []string{"quote", "schema"} {
		s.send("quoteWorkflow", name)
	}
	for _, name := range []string{"inline", "capped", "schema"} {
		s.send("triggerWorkflow", name)
	}
	s.stage()
	s.send("triggerWorkflow", "again")
	for _, name := range []string{"updated", "schema"} {
		s.send("updateWorkflowComponent", name)
	}
	s.send("replaceWorkflow", "balances")
	s.send("triggerWorkflow", "empty", "workflowId", reportID)
	s.waits()
	for _, name := range []string{"signal", "schema"} {
		s.send("sendRunSignal", name, "runId", waitingID)
	}
	for _, name := range []string{"canceling", "schema"} {
		s.send("cancelWorkflowRun", name, "runId", waitingID)
	}
	s.triggers()
	s.people()
	s.send("replaceWorkflow", "schema") // the example pauses the workflow
}

// stage learns the stage for fromStageId after the run has finished.
func (s *story) stage() {
	path := "/v1/sdk/workflows/executions/" + s.called(runID)
	s.trial.Until("the run is over", 20*time.Second, func() bool {
		run := probe.Decode[object](s.trial, s.trial.Get(path))
		if run["finishedAt"] == nil {
			return false
		}
		for _, stage := range run["runStages"].([]any) {
			if stage.(object)["componentId"] == "balance" {
				s.known[stageID] = stage.(object)["id"].(string)
			}
		}
		return true
	})
}

// waits starts a run that waits for the signal of the examples.
func (s *story) waits() {
	created := probe.Decode[object](s.trial, s.trial.Post("/v1/sdk/workflows", object{
		"name": "Approval", "sequenceEdges": []object{{"id": "e1", "from": "wait", "to": "rest"}},
		"components": []object{
			{"id": "wait", "module": "WAIT_FOR_SIGNAL", "config": object{"name": "approved", "timeoutMs": 60_000}},
			{"id": "rest", "module": "DELAY", "config": object{"durationMs": 60_000}},
		},
	}))
	begun := probe.Decode[object](s.trial, s.trial.Post("/v1/sdk/workflows/"+created["id"].(string), object{}))
	s.known[waitingID] = begun["runId"].(string)
}

func (s *story) triggers() {
	for _, name := range []string{"schema", "schedule"} {
		s.send("createSchedule", name)
	}
	for _, name := range []string{"schema", "paused"} {
		s.send("replaceSchedule", name)
	}
	for _, name := range []string{"schema", "hook"} {
		s.send("createHook", name)
	}
	s.send("receiveHook", "run")
	for _, name := range []string{"schema", "paused"} {
		s.send("replaceHook", name)
	}
	for _, name := range []string{"schema", "variable", "token"} {
		for _, id := range []string{"setEnvironmentVariable", "setWorkspaceEnvironmentVariable"} {
			s.send(id, name)
		}
	}
}

func (s *story) people() {
	s.send("createInvitation", "invitation")
	s.send("acceptInvitation", "session")
	s.send("updateMember", "member")
	s.send("createApiKey", "key")
	s.send("rotateApiKey", "successor")
}
