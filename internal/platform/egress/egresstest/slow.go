package egresstest

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// Slow are receivers that answer a request with nothing, or with a little all the time,
// until the client goes.
var Slow = map[string]http.HandlerFunc{
	"silent": func(_ http.ResponseWriter, r *http.Request) {
		drain(r)
		<-r.Context().Done()
	},
	"trickling": func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-r.Context().Done():
				return
			case <-ticker.C:
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
			}
		}
	},
}

// drain reads the request: without that the server does not see the client go.
func drain(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// Endless is a receiver that goes on with its answer until the client goes, and tells
// sentFunc of the bytes of each part.
func Endless(sentFunc func(bytes int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		part := strings.Repeat(" ", 1<<16)
		for r.Context().Err() == nil {
			n, err := io.WriteString(w, part)
			if sentFunc(n); err != nil {
				return
			}
		}
	}
}
