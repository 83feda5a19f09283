// Package mail sends e-mail through the SMTP server that the operator configured.
//
// It doesn't depend on the content of messages, has no queue and never retries. The password of
// the SMTP server and the text of a message are sent only over TLS, unless the server is on this
// machine.
package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"strconv"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// patience is the timeout for sending one message.
const patience = 10 * time.Second

// Sender sends messages from one address. It is safe for concurrent use.
type Sender struct {
	host, from string
	options    []gomail.Option
}

// Options of a Sender.
type Options struct {
	// URL of the server: smtp://USER:PASSWORD@HOST:PORT, which must offer STARTTLS, or
	// smtps:// for TLS from the start. User and password are optional.
	URL   string
	From  string         // address of the sender, with or without a name
	Roots *x509.CertPool // CAs of the server's certificate; nil: the CAs of the system
}

// NewSender returns a Sender. Its errors contain neither user nor password.
func NewSender(o Options) (*Sender, error) {
	if _, err := netmail.ParseAddress(o.From); err != nil {
		return nil, errors.New("the sender is not a valid e-mail address")
	}
	// An error of url.Parse would contain the password.
	at, err := url.Parse(o.URL)
	if err != nil || at.Hostname() == "" || at.Path != "" && at.Path != "/" || at.RawQuery != "" || at.Fragment != "" {
		return nil, errors.New("must have the form smtp://USER:PASSWORD@HOST:PORT or smtps://USER:PASSWORD@HOST:PORT")
	}
	s := &Sender{host: at.Hostname(), from: o.From, options: []gomail.Option{
		gomail.WithTimeout(patience),
		gomail.WithTLSConfig(&tls.Config{ServerName: at.Hostname(), RootCAs: o.Roots, MinVersion: tls.VersionTLS12}),
	}}
	port := 587
	switch at.Scheme {
	case "smtp":
		policy := gomail.TLSMandatory
		if local(s.host) {
			policy = gomail.TLSOpportunistic
		}
		s.options = append(s.options, gomail.WithTLSPolicy(policy))
	case "smtps":
		port = 465
		s.options = append(s.options, gomail.WithSSL())
	default:
		return nil, errors.New("must start with smtp:// or smtps://")
	}
	if given := at.Port(); given != "" {
		if port, err = strconv.Atoi(given); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("the port must be a number from 1 to 65535")
		}
	}
	s.options = append(s.options, gomail.WithPort(port))
	if at.User != nil {
		password, _ := at.User.Password()
		auth := gomail.SMTPAuthAutoDiscover
		if at.Scheme == "smtp" && local(s.host) {
			auth = gomail.SMTPAuthPlainNoEnc
		}
		s.options = append(s.options, gomail.WithSMTPAuth(auth), gomail.WithUsername(at.User.Username()), gomail.WithPassword(password))
	}
	return s, nil
}

// local reports whether a host is this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Send sends a message to one address. It returns nil once the server has accepted the message.
func (s *Sender) Send(ctx context.Context, to, subject, text string) error {
	if parsed, err := netmail.ParseAddress(to); err != nil || parsed.Address != to {
		return errors.New("the recipient is not a valid e-mail address")
	}
	message := gomail.NewMsg()
	if err := errors.Join(message.From(s.from), message.To(to)); err != nil {
		return fmt.Errorf("address the message: %w", err)
	}
	message.Subject(subject)
	message.SetDate()
	message.SetMessageID()
	message.SetGenHeader(gomail.Header("Auto-Submitted"), "auto-generated") // RFC 3834: prevents automatic replies
	message.SetBodyString(gomail.TypeTextPlain, text)
	client, err := gomail.NewClient(s.host, s.options...)
	if err != nil {
		return fmt.Errorf("prepare the connection: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := client.DialAndSendWithContext(ctx, message); err != nil {
		return fmt.Errorf("send the message: %w", err)
	}
	return nil
}
