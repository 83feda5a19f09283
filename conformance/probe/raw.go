package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Dial opens a connection for a case that writes raw bytes. The connection is closed at
// the end of the trial, and times out after 20 s unless the target is Unhurried.
func (t *Trial) Dial() net.Conn {
	conn, err := t.dial(t.ctx)
	t.NoError("dial", err)
	t.Cleanup(func() { conn.Close() })
	t.NoError("dial", conn.SetDeadline(time.Now().Add(t.Limit(20*time.Second))))
	return conn
}

func (t *Trial) dial(ctx context.Context) (net.Conn, error) {
	base, err := url.Parse(t.target.BaseURL)
	if err != nil {
		return nil, err
	}
	if base.Scheme == "https" {
		return (&tls.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(base.Hostname(), portOr(base, "443")))
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(base.Hostname(), portOr(base, "80")))
}

func portOr(u *url.URL, fallback string) string {
	if port := u.Port(); port != "" {
		return port
	}
	return fallback
}

// Head returns the request line and the headers of a signed request, without the empty
// line at the end, so that more header lines can follow. Target and method are sent
// unchanged.
func (t *Trial) Head(method, target string, body []byte) string {
	timestamp := Timestamp(time.Now())
	signature, err := Sign(t.target.APISecret, Message(method, target, timestamp, body))
	t.NoError("sign", err)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, strings.TrimPrefix(strings.TrimPrefix(t.target.BaseURL, "http://"), "https://"))
	fmt.Fprintf(&b, "X-Api-Key: %s\r\nX-Sdk-Timestamp: %s\r\nX-Sdk-Signature: %s\r\n", t.target.APIKey, timestamp, signature)
	if t.target.Forwarded {
		fmt.Fprintf(&b, "X-Forwarded-For: %s\r\n", t.address)
	}
	return b.String()
}

// Raw sends bytes on a new connection and returns the responses that it reads until the server
// closes the connection. After an error on the connection, Raw stops reading. Such an error does
// not fail the case.
func (t *Trial) Raw(send string) []Answer {
	conn := t.Dial()
	go func() { _, _ = io.WriteString(conn, send) }()
	var all []Answer
	reader := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return all
		}
		body, err := io.ReadAll(response.Body)
		all = append(all, answered(nil, response, body))
		if err != nil {
			return all
		}
	}
}

// JudgeFailure validates a response from Raw against the rules for every error of the
// service.
func (t *Trial) JudgeFailure(answer Answer) {
	t.Check(answer.Status >= http.StatusBadRequest, "got %d, want an error status", answer.Status)
	t.target.Spec.note(nil, answer)
	t.NoError(fmt.Sprint(answer.Status), t.judge(nil, Request{}, answer))
}

// ReadAnswer reads one response from a connection.
func ReadAnswer(conn net.Conn) (Answer, error) {
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answered(nil, response, body), err
}
