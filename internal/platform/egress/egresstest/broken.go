package egresstest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// Peer is a server that writes raw bytes. It counts the requests that it read.
type Peer struct {
	URL      string
	Accepted atomic.Int64             // connections
	Asked    map[string]*atomic.Int64 // requests by method
}

func newPeer(t testing.TB, scheme string, serve func(*Peer, net.Conn)) *Peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Peer{URL: scheme + "://" + listener.Addr().String(), Asked: map[string]*atomic.Int64{}}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		p.Asked[method] = &atomic.Int64{}
	}
	open(t, listener, func(conn net.Conn) {
		p.Accepted.Add(1)
		serve(p, conn)
	})
	return p
}

// Answering starts a server that reads each request, writes the bytes that answer returns for it, and
// then closes the connection. If answer also returns true, it doesn't close the connection until the
// client does.
func Answering(t testing.TB, answer func(*http.Request) (text string, hang bool)) *Peer {
	return newPeer(t, "http", func(p *Peer, conn net.Conn) { p.answer(conn, answer) })
}

// Hasty starts a server that reads only the headers of each request, writes text and resets the
// connection.
func Hasty(t testing.TB, text string) *Peer {
	return newPeer(t, "http", func(p *Peer, conn net.Conn) {
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		p.Asked[request.Method].Add(1)
		_, _ = io.WriteString(conn, text)
	})
}

func (p *Peer) answer(conn net.Conn, answer func(*http.Request) (string, bool)) {
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		return
	}
	p.Asked[request.Method].Add(1)
	text, hang := answer(request)
	_, _ = io.WriteString(conn, text)
	if hang {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// SecureAnswering is Answering over TLS with the given configuration. If the handshake fails, the
// server reads what the client still sends, so that the client reads the alert.
func SecureAnswering(t testing.TB, config *tls.Config, answer func(*http.Request) (text string, hang bool)) *Peer {
	return newPeer(t, "https", func(p *Peer, conn net.Conn) {
		secured := tls.Server(conn, config)
		if secured.Handshake() != nil {
			finish(conn)
			return
		}
		p.answer(secured, answer)
		_ = secured.CloseWrite()
		finish(conn)
	})
}

// Greeting starts a server behind https that reads the first record of a handshake, writes raw bytes and
// closes the connection.
func Greeting(t testing.TB, text string) *Peer {
	return newPeer(t, "https", func(_ *Peer, conn net.Conn) {
		header := make([]byte, 5)
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(header[3])<<8|int64(header[4])); err != nil {
			return
		}
		_, _ = io.WriteString(conn, text)
		finish(conn)
	})
}

// finish closes the connection without resetting it.
func finish(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, conn)
}

// Alert returns a TLS record with a fatal alert, as a server sends it during a handshake.
func Alert(code byte) string { return string([]byte{21, 3, 3, 0, 2, 2, code}) }

// Broken are what a server can write after it has read a request, by name. Each contains "canary" where
// a server can choose words.
var Broken = map[string]string{
	"nothing":                "",
	"one byte":               "H",
	"half a status line":     "HTTP/1.1 20",
	"not HTTP":               "SSH-2.0-canary\r\n",
	"another protocol":       "HTTP/canary 200 OK\r\n\r\n",
	"a status of letters":    "HTTP/1.1 canary OK\r\n\r\n",
	"cut headers":            "HTTP/1.1 200 OK\r\nX-A: canary",
	"a header, no colon":     "HTTP/1.1 200 OK\r\ncanary\r\n\r\n",
	"a header, no name":      "HTTP/1.1 200 OK\r\n: canary\r\n\r\n",
	"two lengths":            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
	"a length of letters":    "HTTP/1.1 200 OK\r\nContent-Length: canary\r\n\r\n{}",
	"an unknown transfer":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: canary\r\n\r\n{}",
	"103, then the end":      "HTTP/1.1 103 Early Hints\r\nLink: canary\r\n\r\n",
	"100, then the end":      "HTTP/1.1 100 Continue\r\n\r\n",
	"a cut body":             "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":7",
	"a cut body, 503":        "HTTP/1.1 503 canary\r\nContent-Length: 100\r\n\r\ncanary",
	"no body, 503":           "HTTP/1.1 503 canary\r\nContent-Length: 100\r\n\r\n",
	"a cut chunk":            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc",
	"a broken chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ncanary\r\nabc\r\n0\r\n\r\n",
	"a chunk without end":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
	"cut gzip":               "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n\r\n\x1f\x8b",
	"an unknown coding":      "HTTP/1.1 200 OK\r\nContent-Encoding: canary\r\nContent-Length: 2\r\n\r\n{}",
	"an unknown coding, cut": "HTTP/1.1 200 OK\r\nContent-Encoding: canary\r\nContent-Length: 9\r\n\r\n{}",
	"not gzip":               "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
	"half of gzip":           "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
	"complete, 503":          "HTTP/1.1 503 canary\r\nContent-Length: 2\r\n\r\n{}",
	"complete, 429":          "HTTP/1.1 429 canary\r\nContent-Length: 0\r\n\r\n",
	"a bad location":         "HTTP/1.1 302 Found\r\nLocation: http://canary:canary/\r\nContent-Length: 0\r\n\r\n",
	"a redirect to itself":   "HTTP/1.1 307 Found\r\nLocation: /canary\r\nContent-Length: 0\r\n\r\n",
}
