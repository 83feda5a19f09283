package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/web/contract"
)

const executionID = "019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e"

var loadOnce = sync.OnceValues(contract.Load)

// operations is a fake of the handlers. It records which operations ran.
type operations struct {
	api.StrictServerInterface

	mu   sync.Mutex
	ran  []string
	body *api.ExecuteComponentRequest

	ledger  *Server
	execute func() error
	run     func(context.Context) wholeRun
	get     func(context.Context) (api.ComponentExecution, error)
	stream  func(context.Context) (api.StreamComponentExecutionResponseObject, error)
}

func (o *operations) saw(operation string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ran = append(o.ran, operation)
}

// taken returns the operations that ran since the last call.
func (o *operations) taken() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	ran := o.ran
	o.ran = nil
	return ran
}

func (o *operations) ExecuteComponent(ctx context.Context, request api.ExecuteComponentRequestObject) (api.ExecuteComponentResponseObject, error) {
	if form := fault.Malformed(callOf(ctx).faults); form != nil {
		return nil, form
	}
	o.saw("executeComponent")
	o.mu.Lock()
	o.body = request.Body
	o.mu.Unlock()
	if o.execute != nil {
		if err := o.execute(); err != nil {
			return nil, err
		}
	}
	return jsonResponse(api.ComponentExecution{Module: request.Body.Module}).replayed(true), nil
}

func (o *operations) GetComponentExecution(ctx context.Context, request api.GetComponentExecutionRequestObject) (api.GetComponentExecutionResponseObject, error) {
	o.saw("getComponentExecution")
	if o.get != nil {
		record, err := o.get(ctx)
		return api.GetComponentExecution200JSONResponse(record), err
	}
	return api.GetComponentExecution200JSONResponse{ID: request.ExecutionID}, nil
}

func (o *operations) ListComponentExecutions(context.Context, api.ListComponentExecutionsRequestObject) (api.ListComponentExecutionsResponseObject, error) {
	o.saw("listComponentExecutions")
	return api.ListComponentExecutions200JSONResponse{Data: []api.ComponentExecution{}}, nil
}

func (o *operations) ListComponents(context.Context, api.ListComponentsRequestObject) (api.ListComponentsResponseObject, error) {
	o.saw("listComponents")
	return api.ListComponents200JSONResponse{}, nil
}

func (o *operations) GetComponent(context.Context, api.GetComponentRequestObject) (api.GetComponentResponseObject, error) {
	o.saw("getComponent")
	return api.GetComponent200JSONResponse{}, nil
}

func (o *operations) ReplayComponentCallback(context.Context, api.ReplayComponentCallbackRequestObject) (api.ReplayComponentCallbackResponseObject, error) {
	o.saw("replayComponentCallback")
	return api.ReplayComponentCallback200JSONResponse{}, nil
}

func (o *operations) StreamComponentExecution(ctx context.Context, _ api.StreamComponentExecutionRequestObject) (api.StreamComponentExecutionResponseObject, error) {
	o.saw("streamComponentExecution")
	if o.stream == nil {
		return nil, fault.New(fault.NotFound, "none")
	}
	return o.stream(ctx)
}

func (o *operations) GetWorkflowRun(ctx context.Context, _ api.GetWorkflowRunRequestObject) (api.GetWorkflowRunResponseObject, error) {
	o.saw("getWorkflowRun")
	return response(o.run(ctx).write), nil
}

func (o *operations) GetLiveness(context.Context, api.GetLivenessRequestObject) (api.GetLivenessResponseObject, error) {
	o.saw("getLiveness")
	return api.GetLiveness200JSONResponse{Status: api.LivenessStatusAlive}, nil
}

// service serves the front with test operations on a real socket. It has the production limits,
// unless a test changes them before start.
type service struct {
	*httptest.Server
	front      *front
	operations *operations
	logs       *logs

	connections Connections

	mu        sync.Mutex
	verified  []auth.Request
	keys      map[string]uuid.UUID // of workflows
	workflows []uuid.UUID          // to which the key is restricted; empty: unrestricted
}

// logs collects log output.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start serves the test operations. A request with the header X-Api-Key is authenticated. The
// requests that the verifier receives are recorded.
func start(t testing.TB, change ...func(*service, *http.Server)) *service {
	t.Helper()
	document, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{operations: &operations{}, logs: &logs{}}
	log := slog.New(slog.NewJSONHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.front = &front{contract: document, memory: NewMemory(DefaultMemory), log: log, timeouts: defaultTimeouts}
	s.front.precheck = func(http.Header, netip.Addr) error { return nil }
	s.front.verify = func(_ context.Context, r auth.Request) (auth.Principal, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.verified = append(s.verified, r)
		if r.Header.Get(auth.HeaderKey) == "" {
			return auth.Principal{}, &fault.Error{Code: fault.Unauthorized, Reason: "missing_api_key", Message: "X-Api-Key is missing"}
		}
		return auth.Principal{WorkspaceID: uuid.Max, KeyID: uuid.Max, Workflows: s.workflows}, nil
	}
	s.front.findWorkflow = func(_ context.Context, _ uuid.UUID, name string) (uuid.UUID, error) { return s.keys[name], nil }
	s.front.mount(s.operations, nil)
	s.Server = httptest.NewUnstartedServer(s.front)
	s.Config = HTTPServer(s.front, log)
	s.connections = Connections{Max: 5000, PerAddress: 5000, Log: log}
	for _, c := range change {
		c(s, s.Config)
	}
	s.Server.Listener = Listener(s.Server.Listener, s.Config, s.connections)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// takeVerified returns the requests that the verifier received since the last call.
func (s *service) takeVerified() []auth.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.verified
	s.verified = nil
	return v
}

// reply is a complete response.
type reply struct {
	status int
	header http.Header
	body   string
	closed bool // the server closes the connection after it
}

func (r reply) problem(t testing.TB) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return p
}

// do sends an authenticated request; header lines are "Name: value".
func (s *service) do(t testing.TB, method, target, body string, header ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(auth.HeaderKey, "ws_test")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Del(name); value != "" {
			r.Header[http.CanonicalHeaderKey(name)] = []string{value}
		}
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{answer.StatusCode, answer.Header, string(data), answer.Close}
}

// dial opens a raw connection.
func (s *service) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(waittest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// raw sends text unchanged, closes the write side of the connection, and reads responses until the
// server closes the connection.
func (s *service) raw(t testing.TB, text string) []reply {
	t.Helper()
	conn := s.dial(t)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	return repliesOf(conn)
}

func repliesOf(conn io.Reader) []reply {
	var replies []reply
	reader := bufio.NewReader(conn)
	for {
		answer, err := readReply(reader)
		if err != nil {
			return replies
		}
		replies = append(replies, answer)
	}
}

// firstReply reads one response without waiting for the connection to close.
func firstReply(t testing.TB, conn io.Reader) reply {
	t.Helper()
	answer, err := readReply(bufio.NewReader(conn))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func readReply(from *bufio.Reader) (reply, error) {
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		return reply{}, err
	}
	data, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, string(data), answer.Close}, err
}

// schemaOf compiles a schema of the contract.
func schemaOf(t testing.TB, pointer string) *jsonschema.Schema {
	t.Helper()
	compiler, err := schemasOnce()
	if err != nil {
		t.Fatal(err)
	}
	compiling.Lock()
	defer compiling.Unlock()
	schema, err := compiler.Compile("mem:///openapi.json#" + pointer)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

var compiling sync.Mutex

// schemasOnce reads the document once, because reading takes longer than compiling a schema.
var schemasOnce = sync.OnceValues(func() (*jsonschema.Compiler, error) {
	document, err := loadOnce()
	if err != nil {
		return nil, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document.JSON))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	return compiler, compiler.AddResource("mem:///openapi.json", value)
})
