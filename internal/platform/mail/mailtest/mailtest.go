// Package mailtest is an SMTP server for tests, in the test's process and on the loopback
// address. Only test files may import this package.
package mailtest

import (
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

// Server accepts messages and stores them.
type Server struct {
	URL      string
	received chan Message
	refuses  atomic.Bool
}

// Message is a message as the server received it.
type Message struct{ From, To, Subject, Text string }

// Start starts a server, which is stopped when the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{received: make(chan Message, 100)}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }))
	server.AllowInsecureAuth = true
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		_ = listener.Close() // Serve may not have registered the listener yet
		<-ended
	})
	s.URL = "smtp://" + listener.Addr().String()
	return s
}

// Refuse makes the server reject all messages from now on.
func (s *Server) Refuse() { s.refuses.Store(true) }

// Next waits for the next message and returns it.
func (s *Server) Next(t testing.TB) Message {
	t.Helper()
	select {
	case m := <-s.received:
		return m
	case <-time.After(30 * time.Second):
		t.Fatal("no message in 30 s")
		return Message{}
	}
}

// Received returns the number of messages that Next has not returned yet.
func (s *Server) Received() int { return len(s.received) }

// session is one connection.
type session struct {
	server  *Server
	message Message
}

func (s *session) Reset()        { s.message = Message{} }
func (s *session) Logout() error { return nil }

// Mail starts a message.
func (s *session) Mail(from string, _ *smtp.MailOptions) error { s.message.From = from; return nil }

// Rcpt names the recipient.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.server.refuses.Load() {
		return errors.New("refused")
	}
	s.message.To = to
	return nil
}

// Data reads the message.
func (s *session) Data(r io.Reader) error {
	parsed, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	if s.message.Subject, err = new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject")); err != nil {
		return err
	}
	body := parsed.Body
	if strings.EqualFold(parsed.Header.Get("Content-Transfer-Encoding"), "quoted-printable") {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	s.message.Text = strings.ReplaceAll(string(text), "\r\n", "\n")
	s.server.received <- s.message
	return nil
}
