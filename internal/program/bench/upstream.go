package main

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// upstream is the service that API_CALL calls: one address that responds immediately, one that
// responds after 100 ms, and gates that respond once they are opened.
type upstream struct {
	server *http.Server
	addr   string

	mu    sync.Mutex
	gates map[string]chan struct{}
}

const slowAnswer = 100 * time.Millisecond

func newUpstream() (*upstream, error) {
	u := &upstream{gates: map[string]chan struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/now", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`) // fails only if the client has disconnected
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, q *http.Request) {
		if pause(q.Context(), slowAnswer) == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	mux.HandleFunc("/gate/{key}", func(w http.ResponseWriter, q *http.Request) {
		select {
		case <-u.gate(q.PathValue("key")):
			w.WriteHeader(http.StatusNoContent)
		case <-q.Context().Done():
		}
	})
	var err error
	u.server, u.addr, err = serve(mux)
	return u, err
}

// direct returns a request to the address that responds immediately.
func (u *upstream) direct() *call { return &call{method: http.MethodGet, target: "/now", host: u.addr} }

// apiCall returns a call of one of the addresses.
func (u *upstream) apiCall(path string) step {
	return step{"API_CALL", `{"headers":{}}`, `{"method":"GET","timeoutMs":120000,"apiUrl":"http://` + u.addr + path + `"}`}
}

// open lets all requests through a gate, waiting and later ones.
func (u *upstream) open(key string) { close(u.gate(key)) }

func (u *upstream) gate(key string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gates[key] == nil {
		u.gates[key] = make(chan struct{})
	}
	return u.gates[key]
}
