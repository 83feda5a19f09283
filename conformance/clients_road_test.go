package conformance

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/internal/local/demo"
)

// road is a proxy between a client and the service that removes a prefix of the path. The proxy
// cuts the first stream of a run inside a message, and rejects the first poll as a rate limit
// would. It says that the service ignored a field of each call of a component. The run continues only after the stream was cut, so a client that does not reconnect
// misses events.
type road struct {
	baseURL  string // as the client knows it
	upstream *httptest.Server
	direct   *url.URL

	mutex   sync.Mutex
	streams []string // Last-Event-ID of each connection to the stream of a run
	polls   int
	broken  chan struct{}
}

func newRoad(t *testing.T, behind *probe.Target) *road {
	t.Helper()
	direct, err := url.Parse(behind.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	r := &road{direct: direct, broken: make(chan struct{})}
	through := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(direct) }}
	mux := http.NewServeMux()
	mux.Handle("/", through)
	mux.HandleFunc("POST /v1/sdk/components", func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Weft-Ignored", `"/invented"`)
		through.ServeHTTP(w, request)
	})
	mux.HandleFunc("GET /v1/sdk/components/executions/{id}", func(w http.ResponseWriter, request *http.Request) {
		if r.polled() == 1 {
			refusePoll(w)
			return
		}
		through.ServeHTTP(w, request)
	})
	mux.HandleFunc("GET /v1/sdk/workflows/executions/{id}/stream", func(w http.ResponseWriter, request *http.Request) {
		if r.streamed(request.Header.Get("Last-Event-Id")) == 1 {
			r.breakOff(w, request)
		}
		through.ServeHTTP(w, request)
	})
	server := httptest.NewServer(http.StripPrefix("/weft", mux))
	r.baseURL = server.URL + "/weft"
	prices := demo.Handler()
	r.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		select {
		case <-r.broken:
			prices.ServeHTTP(w, request)
		case <-request.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(r.upstream.Close)
	return r
}

func (r *road) polled() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.polls++
	return r.polls
}

func (r *road) streamed(lastEventID string) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.streams = append(r.streams, lastEventID)
	return len(r.streams)
}

func refusePoll(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, `{"code":"RATE_LIMITED","detail":"wait","status":429}`)
}

// breakOff forwards messages up to the first message in the run's log. Then it sends the first part
// of an invented message. A message before the log has the ID 0.
func (r *road) breakOff(w http.ResponseWriter, request *http.Request) {
	onward := request.Clone(request.Context())
	onward.RequestURI, onward.URL.Scheme, onward.URL.Host = "", r.direct.Scheme, r.direct.Host
	answer, err := http.DefaultTransport.RoundTrip(onward)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	reader := bufio.NewReader(answer.Body)
	logged := false
	for {
		line, err := reader.ReadString('\n')
		_, _ = io.WriteString(w, line)
		logged = logged || strings.HasPrefix(line, "id:") && line != "id: 0\n"
		if err != nil || logged && line == "\n" {
			break
		}
	}
	_, _ = io.WriteString(w, ":ping\n\nid: 4711\ndata: {\"status\":\"COMPLETED\",\"seq\":")
	_ = http.NewResponseController(w).Flush()
	close(r.broken)
	panic(http.ErrAbortHandler) // without the end that HTTP has for a body
}

// check checks how the client handled the faults of the proxy.
func (r *road) check(t *testing.T, f facts) {
	t.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if want := fmt.Sprint(f.Run.Seqs[:1]); len(r.streams) != 2 || r.streams[0] != "0" || r.streams[1] != strings.Trim(want, "[]") {
		t.Errorf("the connections to the stream came with Last-Event-ID %q; want that of the first event, %s, after the break", r.streams, want)
	}
	if r.polls < 2 {
		t.Errorf("%d polls: none after the one that was refused", r.polls)
	}
}
