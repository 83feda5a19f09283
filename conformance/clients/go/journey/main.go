// Command journey uses every feature of Weft once and prints the results as JSON:
// journey .weft/credentials.json. It receives the callback on a local port, so start the
// service with weft dev --allow-network 127.0.0.0/8.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	weft "github.com/weft-automation/weft/conformance/clients/go"
	"github.com/weft-automation/weft/conformance/signers"
)

const secret = "a secret of both, with an ä"

type facts map[string]any

type traveller struct {
	*weft.ClientWithResponses
	baseURL    string
	stream     weft.Stream
	workflowID weft.ID
}

func main() {
	path := ".weft/credentials.json"
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	if err := journey(context.Background(), path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func journey(ctx context.Context, path string) error {
	t, err := newTraveller(path)
	if err != nil {
		return err
	}
	all := facts{}
	for name, leg := range map[string]func(context.Context) (facts, error){
		"inline": t.inline, "polled": t.polled, "streamed": t.streamed, "run": t.run, "callback": t.callback, "refused": t.refused,
	} {
		if all[name], err = leg(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

func newTraveller(path string) (*traveller, error) {
	var credentials struct {
		BaseURL, APIKey, APISecret string
		Workflows                  struct{ FanOut weft.ID }
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &credentials); err != nil {
		return nil, err
	}
	signer, err := signers.NewSigner(credentials.APIKey, credentials.APISecret)
	if err != nil {
		return nil, err
	}
	signing := &http.Client{Transport: weft.Transport{Signer: signer, BaseURL: credentials.BaseURL}}
	client, err := weft.NewClientWithResponses(credentials.BaseURL, weft.WithHTTPClient(signing))
	return &traveller{client, credentials.BaseURL, weft.Stream{Client: signing}, credentials.Workflows.FanOut}, err
}

// execute submits a call; more sets what it has beyond a module and its input.
func (t *traveller) execute(ctx context.Context, module string, input map[string]any, more func(*weft.ExecuteComponentRequest)) (*weft.ComponentExecution, error) {
	key := uuid.NewString()
	body := weft.ExecuteComponentRequest{Module: module, Input: input, Config: map[string]any{}}
	more(&body)
	answer, err := t.ExecuteComponentWithResponse(ctx, &weft.ExecuteComponentParams{IdempotencyKey: &key}, body)
	if err != nil {
		return nil, err
	}
	return answer.JSON200, weft.Check(answer)
}

func plain(*weft.ExecuteComponentRequest) {}

// member is one of an output, which is the component's own.
func member(output any, name string) any {
	members, _ := output.(map[string]any)
	return members[name]
}

func (t *traveller) inline(ctx context.Context) (facts, error) {
	wait := int32(15000)
	record, err := t.execute(ctx, "RANDOM_UUID", map[string]any{}, func(r *weft.ExecuteComponentRequest) { r.WaitForMs = &wait })
	if err != nil {
		return nil, err
	}
	return facts{"id": record.ID, "status": record.Status, "uuid": member(record.Output, "uuid")}, nil
}

func (t *traveller) polled(ctx context.Context) (facts, error) {
	record, err := t.execute(ctx, "HASH", map[string]any{"data": "hällo", "algorithm": "sha256"}, plain)
	if err != nil {
		return nil, err
	}
	first := record.Status
	for pause := 20 * time.Millisecond; record.Status == weft.ExecutionStatusCREATED || record.Status == weft.ExecutionStatusEXECUTING; pause = min(2*pause, 2*time.Second) {
		<-time.After(pause)
		answer, err := t.GetComponentExecutionWithResponse(ctx, record.ID)
		if err != nil {
			return nil, err
		}
		if err := weft.Check(answer); err != nil {
			return nil, err
		}
		record = answer.JSON200
	}
	return facts{"id": record.ID, "first": first, "status": record.Status, "digest": member(record.Output, "digest")}, nil
}

func (t *traveller) streamed(ctx context.Context) (facts, error) {
	record, err := t.execute(ctx, "RANDOM_UUID", map[string]any{}, plain)
	if err != nil {
		return nil, err
	}
	var statuses []weft.ExecutionStatus
	var last weft.ComponentExecutionEvent
	for event, err := range weft.Events[weft.ComponentExecutionEvent](ctx, t.stream, t.baseURL+"/v1/sdk/components/executions/"+record.ID.String()+"/stream", "") {
		if err != nil {
			return nil, err
		}
		statuses, last = append(statuses, event.Status), event
	}
	return facts{"id": record.ID, "statuses": statuses, "uuid": member(last.Output, "uuid")}, nil
}

func (t *traveller) run(ctx context.Context) (facts, error) {
	begun, err := t.TriggerWorkflowWithResponse(ctx, t.workflowID.String(), nil, weft.TriggerWorkflowRequest{})
	if err != nil {
		return nil, err
	}
	if err := weft.Check(begun); err != nil {
		return nil, err
	}
	id := begun.JSON200.RunID
	var seqs []int64
	var statuses []weft.RunStatus
	var last weft.RunEvent
	for event, err := range weft.Events[weft.RunEvent](ctx, t.stream, t.baseURL+"/v1/sdk/workflows/executions/"+id.String()+"/stream", "0") {
		if err != nil {
			return nil, err
		}
		seqs, statuses, last = append(seqs, event.Seq), append(statuses, event.Status), event
	}
	none := weft.GetWorkflowRunParamsStagesNone
	answer, err := t.GetWorkflowRunWithResponse(ctx, id, &weft.GetWorkflowRunParams{Stages: &none})
	if err != nil {
		return nil, err
	}
	if err := weft.Check(answer); err != nil {
		return nil, err
	}
	return facts{"id": id, "seqs": seqs, "statuses": statuses, "totalUsage": last.Output.TotalUsage, "prices": member(answer.JSON200.Output, "prices")}, nil
}

type delivery struct {
	header http.Header
	body   []byte
}

// receiver takes callbacks: 204 for what is genuine, 401 for anything else.
func receiver(came chan<- delivery) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2<<20))
		if err != nil || weft.VerifyCallback(secret, r.Header, body, time.Now()) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		came <- delivery{r.Header, body}
	})}
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String() + "/weft", func() { _ = server.Shutdown(context.Background()) }, nil // not before what came is answered
}

func (t *traveller) callback(ctx context.Context) (facts, error) {
	came := make(chan delivery, 8)
	url, stop, err := receiver(came)
	if err != nil {
		return nil, err
	}
	defer stop()
	key := secret
	record, err := t.execute(ctx, "RANDOM_UUID", map[string]any{}, func(r *weft.ExecuteComponentRequest) {
		r.CallbackURL, r.CallbackSecret, r.CallbackHeaders = &url, &key, map[string]string{"X-Order": "4711"}
	})
	if err != nil {
		return nil, err
	}
	var delivered delivery
	select {
	case delivered = <-came:
	case <-time.After(30 * time.Second):
		return nil, errors.New("no callback came within 30 s")
	}
	var final weft.ComponentExecution
	if err := json.Unmarshal(delivered.body, &final); err != nil {
		return nil, err
	}
	altered := bytes.Replace(delivered.body, []byte(`"COMPLETED"`), []byte(`"FAILED"`), 1)
	forged, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(altered))
	if err != nil {
		return nil, err
	}
	for name, values := range delivered.header {
		if strings.HasPrefix(name, "X-") || strings.HasPrefix(name, "Webhook-") {
			forged.Header[name] = values
		}
	}
	answer, err := http.DefaultClient.Do(forged)
	if err != nil {
		return nil, err
	}
	answer.Body.Close()
	return facts{
		"id": record.ID, "executionId": delivered.header.Get("X-Svc-Execution-Id"), "order": delivered.header.Get("X-Order"),
		"uuid": member(final.Output, "uuid"), "altered": answer.StatusCode,
	}, nil
}

func (t *traveller) refused(ctx context.Context) (facts, error) {
	_, err := t.execute(ctx, "HASH", map[string]any{"algorithm": "sha256"}, plain)
	var refusal *weft.Refusal
	if !errors.As(err, &refusal) || len(refusal.Errors) == 0 {
		return nil, fmt.Errorf("it was not refused: %w", err)
	}
	return facts{"status": refusal.Status, "code": refusal.Code, "pointer": refusal.Errors[0].Pointer}, nil
}
