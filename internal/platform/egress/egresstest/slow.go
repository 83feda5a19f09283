package egresstest

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// Slow are receivers that send no response, or an endless trickle, until the client disconnects.
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

// drain reads the request. Otherwise the server wouldn't notice that the client disconnects.
func drain(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// Endless returns a receiver that sends its response until the client disconnects. It calls
// sentFunc with the size of each part.
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
