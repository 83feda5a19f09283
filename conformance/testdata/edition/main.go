// Command edition makes the same calls with a client that was generated from one edition
// of the document, and prints what it understood of each answer. The package client is
// there only while TestAClientOfEachEditionIsServedAlike builds this.
package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/testdata/edition/client"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// signed adds the three headers to a request.
func signed(key, secret string) (client.RequestEditorFn, error) {
	der, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, r *http.Request) error {
		body := []byte("{}")
		if r.Body != nil && r.Body != http.NoBody {
			sent, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			r.Body = io.NopCloser(bytes.NewReader(sent))
			body = sent
		}
		now := strconv.FormatInt(time.Now().Unix(), 10)
		message := strings.Join([]string{r.Method, r.URL.RequestURI(), now, string(body)}, "|")
		r.Header.Set("X-Api-Key", key)
		r.Header.Set("X-Sdk-Timestamp", now)
		r.Header.Set("X-Sdk-Signature", base64.StdEncoding.EncodeToString(ed25519.Sign(parsed.(ed25519.PrivateKey), []byte(message))))
		return nil
	}, nil
}

// body is a request's body in the client's own type.
func body[T any](text string) T {
	var value T
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		panic(err)
	}
	return value
}

// times are written by Go without the zeros at their end.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// varying is what differs from call to call: ids, times, numbers of jobs, what is left of limits.
var varying = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|"jobId":"\d+"|"(remaining|open|\w*[cC]redits|usedThisMonth|storedBytes)":[0-9.e+]+`)

// show prints what the client made of an answer, and fails if that is not all that was sent.
func show[T any](what string, response *T, err error) (*T, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	fields := reflect.ValueOf(response).Elem()
	understood := "nothing"
	for i := range fields.NumField() {
		name, value := fields.Type().Field(i).Name, fields.Field(i)
		if !strings.Contains(name, "JSON") || value.Kind() != reflect.Pointer || value.IsNil() {
			continue
		}
		again, err := json.Marshal(value.Interface())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if sent := fields.FieldByName("Body").Bytes(); times.ReplaceAllString(canonical(sent), "~") != times.ReplaceAllString(canonical(again), "~") {
			return nil, fmt.Errorf("%s: sent\n%s\nunderstood\n%s", what, canonical(sent), canonical(again))
		}
		understood = name + " " + varying.ReplaceAllString(canonical(again), "~")
	}
	status := fields.FieldByName("HTTPResponse").Interface().(*http.Response).StatusCode
	fmt.Println(what, status, understood)
	return response, nil
}

func canonical(data []byte) string {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err.Error()
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

const workflow = `{"name":"Edition","components":[
	{"id":"start","module":"ON_API_CALLED"},
	{"id":"word","module":"STRING_CONSTANT","config":{"value":"a text"},"position":[240,0.5]},
	{"id":"hash","module":"HASH","input":{"algorithm":"sha256"},"attempts":2,"onFailure":"continue"}],
	"sequenceEdges":[{"id":"e1","from":"start","to":"word"},{"id":"e2","from":"word","to":"hash"}],
	"dataConnections":[{"id":"d1","from":{"componentId":"word","output":"value"},"to":{"componentId":"hash","input":"data"}}]}`

func run(ctx context.Context) error {
	sign, err := signed(os.Getenv("WEFT_KEY"), os.Getenv("WEFT_SECRET"))
	if err != nil {
		return err
	}
	api, err := client.NewClientWithResponses(os.Getenv("WEFT_URL"), client.WithRequestEditorFn(sign))
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context, *client.ClientWithResponses) error{components, workflows, workspace} {
		if err := part(ctx, api); err != nil {
			return err
		}
	}
	return nil
}

func components(ctx context.Context, api *client.ClientWithResponses) error {
	limit := client.Limit(3)
	page, err := api.ListComponentsWithResponse(ctx, &client.ListComponentsParams{Limit: &limit})
	if _, err := show("listComponents", page, err); err != nil {
		return err
	}
	execute := func(what, text string) (*client.ExecuteComponentResponse, error) {
		answer, err := api.ExecuteComponentWithResponse(ctx, &client.ExecuteComponentParams{}, body[client.ExecuteComponentJSONRequestBody](text))
		return show("executeComponent "+what, answer, err)
	}
	done, err := execute("waits", `{"module":"TRANSFORM","input":{"a":[1,2.5,"3"]},"config":{"expression":"a"},"waitForMs":15000}`)
	if err != nil {
		return err
	}
	if _, err := execute("fails", `{"module":"JSON_PARSE","input":{"text":"{"},"config":{},"attempts":1,"waitForMs":15000}`); err != nil {
		return err
	}
	if _, err := execute("is refused", `{"module":"NO_SUCH_MODULE","input":{},"config":{}}`); err != nil {
		return err
	}
	if _, err := execute("is invalid", `{"module":"HASH","input":{"algorithm":"none"},"config":{}}`); err != nil {
		return err
	}
	if done.JSON200 == nil {
		return fmt.Errorf("the execution is not there")
	}
	again, err := api.GetComponentExecutionWithResponse(ctx, done.JSON200.ID)
	if _, err := show("getComponentExecution", again, err); err != nil {
		return err
	}
	stream, err := api.StreamComponentExecutionWithResponse(ctx, done.JSON200.ID, &client.StreamComponentExecutionParams{})
	if err != nil {
		return err
	}
	fmt.Println("streamComponentExecution", varying.ReplaceAllString(string(stream.Body), "~"))
	replay, err := api.ReplayComponentCallbackWithResponse(ctx, done.JSON200.ID, &client.ReplayComponentCallbackParams{})
	_, err = show("replayComponentCallback", replay, err)
	return err
}

func workflows(ctx context.Context, api *client.ClientWithResponses) error {
	created, err := api.CreateWorkflowWithResponse(ctx, &client.CreateWorkflowParams{}, body[client.CreateWorkflowJSONRequestBody](workflow))
	if created, err = show("createWorkflow", created, err); err != nil {
		return err
	}
	if created.JSON200 == nil {
		return fmt.Errorf("the workflow is not there")
	}
	id := created.JSON200.ID
	updated, err := api.UpdateWorkflowComponentWithResponse(ctx, id, "word", &client.UpdateWorkflowComponentParams{},
		body[client.UpdateWorkflowComponentJSONRequestBody](`{"config":{"value":"another"},"position":[1,2]}`))
	if _, err := show("updateWorkflowComponent", updated, err); err != nil {
		return err
	}
	quote, err := api.QuoteWorkflowWithResponse(ctx, id, body[client.QuoteWorkflowJSONRequestBody](`{"version":1}`))
	if _, err := show("quoteWorkflow", quote, err); err != nil {
		return err
	}
	begun, err := api.TriggerWorkflowWithResponse(ctx, id, &client.TriggerWorkflowParams{},
		body[client.TriggerWorkflowJSONRequestBody](`{"input":{"x":null},"metadata":{"order":"4711"},"waitForMs":15000}`))
	if begun, err = show("triggerWorkflow", begun, err); err != nil {
		return err
	}
	if begun.JSON200 == nil {
		return fmt.Errorf("the run is not there")
	}
	record, err := api.GetWorkflowRunWithResponse(ctx, begun.JSON200.RunID, &client.GetWorkflowRunParams{})
	if _, err := show("getWorkflowRun", record, err); err != nil {
		return err
	}
	stages, err := api.ListRunStagesWithResponse(ctx, begun.JSON200.RunID, &client.ListRunStagesParams{})
	if _, err := show("listRunStages", stages, err); err != nil {
		return err
	}
	schedule, err := api.CreateScheduleWithResponse(ctx, &client.CreateScheduleParams{},
		body[client.CreateScheduleJSONRequestBody](`{"workflowId":"`+id.String()+`","cron":"@yearly","overlap":"queue","status":"PAUSED"}`))
	if _, err := show("createSchedule", schedule, err); err != nil {
		return err
	}
	archived, err := api.ArchiveWorkflowWithResponse(ctx, id, &client.ArchiveWorkflowParams{})
	_, err = show("archiveWorkflow", archived, err)
	return err
}

func workspace(ctx context.Context, api *client.ClientWithResponses) error {
	variable, err := api.SetEnvironmentVariableWithResponse(ctx, "EDITION",
		body[client.SetEnvironmentVariableJSONRequestBody](`{"value":"tok-4f9a27c1d0","secret":true}`))
	if _, err := show("setEnvironmentVariable", variable, err); err != nil {
		return err
	}
	limits, err := api.GetLimitsWithResponse(ctx)
	if _, err := show("getLimits", limits, err); err != nil {
		return err
	}
	own, err := api.GetWorkspaceOfKeyWithResponse(ctx)
	_, err = show("getWorkspaceOfKey", own, err)
	return err
}
