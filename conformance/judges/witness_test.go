package judges

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// witness is a proxy between a tool and the service. It records the requests and the status
// of each response, and replaces the resources that an operation must not share with others.
type witness struct {
	at   string // base URL
	spec *probe.Spec
	own  map[string]own

	mu   sync.Mutex
	seen []exchange // requests of documented operations
}

// exchange is a request that a tool sent, and the status of the response.
type exchange struct {
	operation *probe.Operation
	request   *http.Request // the body has been read
	body      []byte
	wanted    int // the status that the tool expects
	status    int
}

func (e exchange) String() string {
	return fmt.Sprintf("%s %s %.500s, %d for %d", e.request.Method, e.request.URL.RequestURI(), e.body, e.status, e.wanted)
}

// watch starts a witness in front of the service, until the test ends.
func watch(t *testing.T, d deployment, s scene) *witness {
	t.Helper()
	spec, err := probe.LoadSpec()
	if err != nil {
		t.Fatal(err)
	}
	for id := range s.own {
		if !slices.ContainsFunc(spec.Operations(), func(o *probe.Operation) bool { return o.ID == id }) {
			t.Fatalf("openapi.yaml has no operation %s", id)
		}
	}
	w := &witness{spec: spec, own: s.own}
	w.at = before(t, d.proxy, &httputil.ReverseProxy{Transport: w})
	return w
}

// before starts a server that forwards requests until the test ends, and returns its URL.
func before(t *testing.T, to string, proxy *httputil.ReverseProxy) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Rewrite = func(r *httputil.ProxyRequest) { r.SetURL(target) }
	proxy.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		if r.Context().Err() == nil { // otherwise the client has disconnected
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		w.WriteHeader(http.StatusBadGateway)
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

// RoundTrip forwards a request, and records it if the document has its operation.
func (w *witness) RoundTrip(request *http.Request) (*http.Response, error) {
	operation := w.spec.Find(request.Method, request.URL.RequestURI())
	if operation == nil {
		return http.DefaultTransport.RoundTrip(request)
	}
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
	}
	sent, err := w.pass(operation, request, body)
	if err != nil {
		return nil, err
	}
	wanted, err := strconv.Atoi(request.Header.Get("Specmatic-Response-Code"))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultTransport.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, exchange{operation, request, body, wanted, answer.StatusCode})
	return answer, nil
}

// pass returns the request to forward: the same, with the separate resources of the operation.
func (w *witness) pass(operation *probe.Operation, request *http.Request, body []byte) (*http.Request, error) {
	sent := request.Clone(request.Context())
	if own, needed := w.own[operation.ID]; needed {
		given, err := own.give()
		if err != nil {
			return nil, err
		}
		sent.URL.Path, sent.URL.RawPath = strings.ReplaceAll(sent.URL.Path, own.shared, given), ""
		for _, value := range sent.Header {
			value[0] = strings.ReplaceAll(value[0], own.shared, given)
		}
		body = bytes.ReplaceAll(body, []byte(own.shared), []byte(given))
	}
	sent.Body, sent.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return sent, nil
}

// settle validates the recorded requests and responses against openapi.yaml. It returns the number
// of responses with a status that the tool does not expect, and the faults that settle found.
// exclusions.yaml allows a number of disputes in which openapi.yaml contradicts the tool.
func (w *witness) settle(law document, spared exclusions) (disputes int, faults []string) {
	right, forgiven := map[string]int{}, map[string]int{}
	for _, e := range w.seen {
		taken := e.status < http.StatusMultipleChoices
		disputed := e.wanted/100 != e.status/100 || taken && e.wanted != e.status
		if disputed {
			disputes++
		}
		if e.status >= http.StatusInternalServerError || e.status == http.StatusTooManyRequests {
			faults = append(faults, fmt.Sprintf("%v: is not a documented response of the operation", e))
			continue
		}
		if !taken && !disputed {
			continue
		}
		switch wrong := law.against(e); {
		case taken && wrong != nil:
			faults = append(faults, fmt.Sprintf("%v: is accepted, but openapi.yaml does not allow it: %v", e, wrong))
		case !taken && wrong == nil:
			faults = append(faults, fmt.Sprintf("%v: is rejected, but openapi.yaml allows it", e))
		case disputed:
			forgiven[e.operation.ID]++
		default:
			right[e.operation.ID]++
		}
	}
	for _, operation := range w.spec.Operations() {
		if right[operation.ID] == 0 && !spared.spare("operations", operation.ID) {
			faults = append(faults, fmt.Sprintf("no valid request of %s was seen", operation.ID))
		}
	}
	for _, e := range spared["forgiven"] {
		if n := forgiven[e.Name]; n == 0 || n > e.Most {
			faults = append(faults, fmt.Sprintf("exclusions.yaml forgives at most %d requests of %s, and there are %d", e.Most, e.Name, n))
		}
		delete(forgiven, e.Name)
	}
	for operation, n := range forgiven {
		faults = append(faults, fmt.Sprintf("exclusions.yaml forgives no request of %s, and there are %d", operation, n))
	}
	return disputes, faults
}
