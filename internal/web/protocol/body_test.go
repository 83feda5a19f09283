package protocol

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

func TestDiscardStopsAtDeadline(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := NewBody(r)
		w.WriteHeader(http.StatusForbidden)
		body.Discard(w, time.Now().Add(50*time.Millisecond))
	}))
	t.Cleanup(server.Close)
	for name, head := range map[string]string{
		"declared":  "Content-Length: 1000000\r\n\r\n",
		"too large": "Content-Length: 1000000000\r\n\r\n",
		"chunked":   "Transfer-Encoding: chunked\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(waittest.Deadline(t))
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\n"+head)
		if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 403") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		conn.Close()
	}
}
