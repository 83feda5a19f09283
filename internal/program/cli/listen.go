package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/net/netutil"

	"github.com/weft-automation/weft/internal/local/proxy"
	"github.com/weft-automation/weft/internal/local/receiver"
)

// callbackSecret is the variable with the secret of callbacks, for weft call and weft listen.
const callbackSecret = "WEFT_CALLBACK_SECRET"

// maxSenders limits the connections of weft listen and thus, with receiver.MaxBody, its memory.
const maxSenders = 64

// listenCommand receives callbacks for developers.
type listenCommand struct {
	Addr       string           `default:"127.0.0.1:8765" placeholder:"ADDR" help:"Address to listen on (${default})."`
	SecretFile string           `name:"secret-file" placeholder:"FILE" help:"File with the callbackSecret, or - for standard input. Default: the value of $$WEFT_CALLBACK_SECRET. Without a secret, signatures are not checked."`
	Forward    string           `placeholder:"URL" help:"Forward deliveries to this URL, and return its response. A URL without a path gets the path of the delivery."`
	Fail       receiver.Failure `placeholder:"HOW" help:"Failure to inject: slow:2s, drop, or a status such as 500."`
	FailFirst  int              `name:"fail-first" xor:"which" placeholder:"N" help:"Fail the first N deliveries of each execution only."`
	FailRate   float64          `name:"fail-rate" xor:"which" placeholder:"P" help:"Fail each delivery with this probability, such as 0.3."`
	Body       bool             `help:"Also show the bodies."`
	JSON       bool             `name:"json" hidden:"" help:"Write a line of JSON for each delivery."`
	Once       bool             `xor:"count" help:"Stop after one delivery, like --count 1."`
	Count      int              `xor:"count" placeholder:"N" help:"Stop after N deliveries, including repeats."`
	Timeout    time.Duration    `placeholder:"TIME" help:"Maximum time to wait for the deliveries, such as 30s."`
	Expose     bool             `help:"Listen on an address that other machines can reach."`
	Host       []string         `placeholder:"NAME" help:"Allowed host names in addition to the addresses of this machine, such as the host name of a tunnel."`
}

// Validate rejects invalid combinations of flags.
func (c *listenCommand) Validate() error {
	if c.Once {
		c.Count = 1
	}
	switch {
	case c.FailFirst < 0 || c.Count < 0:
		return errors.New("--fail-first and --count must be at least 1")
	case c.FailRate < 0 || c.FailRate > 1:
		return errors.New("--fail-rate must be a probability from 0 to 1")
	case c.Timeout < 0 || c.Timeout > 0 && c.Count == 0:
		return errors.New("--timeout needs --once or --count")
	}
	return nil
}

func (c *listenCommand) Run(s *session) error {
	if c.JSON {
		s.Output = "jsonl"
	}
	cfg := receiver.Config{Failure: c.failure(), Count: c.Count, OnRejected: func(why string) { s.note("refused: %s", printable(why)) }}
	var err error
	if cfg.Secret, err = c.secret(s); err != nil {
		return err
	}
	if c.Forward != "" {
		if cfg.Forward, err = receiver.ParseForward(c.Forward); err != nil {
			return fmt.Errorf("--forward: %w", err)
		}
	}
	ctx, end := context.WithCancelCause(s.ctx)
	defer end(nil)
	cfg.OnDelivery = func(d receiver.Delivery) {
		if err := c.printDelivery(s, d); err != nil {
			end(fmt.Errorf("print a delivery: %w", err))
		}
	}
	listener, err := listenAt(s.ctx, c.Addr, c.Expose, "send you what looks like callbacks")
	if err != nil {
		return err
	}
	taken := receiver.New(cfg)
	c.printStart(s, listener, cfg)
	if c.Timeout > 0 {
		late := time.AfterFunc(c.Timeout, func() { end(fmt.Errorf("not all deliveries arrived within %v", c.Timeout)) })
		defer late.Stop()
	}
	go func() {
		select {
		case <-taken.Done():
			end(nil)
		case <-ctx.Done():
		}
	}()
	err = proxy.Serve(ctx, c.server(s, taken, cfg.OnRejected), netutil.LimitListener(listener, maxSenders), time.Second)
	if err != nil {
		return err
	}
	return c.conclude(s, taken, context.Cause(ctx))
}

// server returns the HTTP server: the receiver behind the same gate as the proxy.
func (c *listenCommand) server(s *session, taken http.Handler, refused func(string)) *http.Server {
	return &http.Server{
		Handler:           proxy.Discarding(&proxy.Gate{Program: "weft_listen", Names: c.Host, HostFlag: true, AnyAddress: c.Expose, OnRejected: refused, Next: taken}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(s.stderr, "weft listen: ", 0),
		BaseContext:       func(net.Listener) context.Context { return s.ctx }, // cancels slow handlers
	}
}

// failure returns the configured failure: status 500 if only --fail-first or --fail-rate is set.
func (c *listenCommand) failure() receiver.Failure {
	failure := c.Fail
	if failure.Kind == "" && (c.FailFirst > 0 || c.FailRate > 0) {
		failure.Kind, failure.Status = receiver.Status, http.StatusInternalServerError
	}
	failure.First, failure.Rate = c.FailFirst, c.FailRate
	return failure
}

// secret returns the callbackSecret, or nil if it is not set.
func (c *listenCommand) secret(s *session) (*string, error) {
	var secret string
	switch c.SecretFile {
	case "":
		if secret = s.getenv(callbackSecret); secret == "" {
			return nil, nil
		}
	case "-":
		var err error
		if secret, _, err = readHidden(s, "Secret of the callbacks"); err != nil {
			return nil, err
		}
	default:
		raw, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("--secret-file: %w", err)
		}
		secret = withoutLineEnd(raw)
	}
	switch {
	case secret == "":
		return nil, errors.New("the secret is empty")
	case !utf8.ValidString(secret):
		return nil, errors.New("the secret is not valid UTF-8")
	}
	return &secret, nil
}

// printStart prints what a user needs to know before passing the address to Weft.
func (c *listenCommand) printStart(s *session, listener net.Listener, cfg receiver.Config) {
	s.note("Listening on http://%s", listener.Addr())
	s.note("Use this address as the callbackUrl, with any path.")
	c.noteNetwork(s, listener.Addr())
	if cfg.Secret != nil {
		s.note("Signatures are checked. A delivery with an invalid signature is answered with 401.")
	} else {
		s.note("Signatures are not checked, because no secret is set. To set the secret, use --secret-file or %s.", callbackSecret)
	}
	if cfg.Failure.Kind != "" {
		s.note("Injecting failures: %s.", cfg.Failure)
	}
	if cfg.Forward != nil {
		s.note("Forwarding to %s", printable(cfg.Forward.Redacted()))
	}
	if c.Expose {
		s.note("EXPOSED: anyone who can reach this address can send forged callbacks.")
	}
}

// noteNetwork prints how to allow this network in Weft, unless the weft dev of this folder already
// allows it.
func (c *listenCommand) noteNetwork(s *session, listens net.Addr) {
	at, _ := netip.ParseAddrPort(listens.String())
	if weft, err := (target{}).read(s); err == nil && weft.Reaches(at.Addr()) {
		return
	}
	network := "127.0.0.0/8"
	switch {
	case at.Addr() == netip.IPv6Loopback():
		network = "::1/128"
	case !at.Addr().IsLoopback():
		network = "NETWORK"
	}
	s.note("Weft reaches public addresses only, by https. To allow this address: weft dev --allow-network %s, or WEFT_ALLOW_NETWORKS.", network)
}

// conclude prints the result. cause is the reason for stopping.
func (c *listenCommand) conclude(s *session, taken *receiver.Receiver, cause error) error {
	came, failed := taken.Summary()
	s.note("%s, %d with problems.", counted(came, "1 delivery", "%d deliveries"), failed)
	switch {
	case cause != nil && !errors.Is(cause, context.Canceled):
		return cause
	case c.Count > 0 && (came < c.Count || failed > 0):
		return errQuiet
	}
	return nil
}

// printDelivery prints one delivery: a line for people, or its JSON.
func (c *listenCommand) printDelivery(s *session, d receiver.Delivery) error {
	line := struct {
		receiver.Delivery
		Body *string `json:"body,omitempty"`
	}{Delivery: d}
	if c.Body {
		line.Body = new(string(d.Body))
	}
	var raw bytes.Buffer // encoded without strictjson, because a body may have any bytes
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil {
		return err
	}
	return s.print([]byte(escapeUnprintable(raw.String())), func(out io.Writer) error {
		var text bytes.Buffer
		fmt.Fprintln(&text, summary(d))
		if c.Body {
			showBody(&text, d.Body)
		}
		_, err := out.Write(text.Bytes())
		return err
	})
}

// escapeUnprintable replaces control characters, which a terminal would interpret, by JSON escapes.
// It keeps the line break.
func escapeUnprintable(line string) string {
	var out strings.Builder
	for _, r := range line {
		if r == '\n' || printable(string(r)) == string(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// kindOf returns what a delivery without a module belongs to.
func kindOf(d receiver.Delivery) string {
	if d.RunID != "" {
		return "run"
	}
	return "-"
}

// summary describes a delivery in one line.
func summary(d receiver.Delivery) string {
	verdict := string(d.Signature)
	if d.Signature == receiver.Bad {
		verdict = "BAD"
	}
	parts := []string{
		d.At.Std().Local().Format("15:04:05.000"), cmp.Or(d.ExecutionID, d.RunID, "-"), cmp.Or(d.Module, kindOf(d)), cmp.Or(string(d.Status), "-"),
		fmt.Sprintf("attempt %d", d.Attempt), "signature " + verdict, answered(d),
	}
	if d.Reason != "" {
		parts = append(parts, d.Reason)
	}
	if d.Repeat == receiver.Repeated {
		parts = append(parts, "repeated: it was accepted before, with the same bytes")
	}
	for _, fault := range d.Faults {
		parts = append(parts, "WRONG: "+printable(fault))
	}
	return strings.Join(parts, "  ")
}

// answered describes the response to a delivery, and its duration.
func answered(d receiver.Delivery) string {
	took := time.Duration(d.DurationMs) * time.Millisecond
	slow := d.Injected != nil && *d.Injected == receiver.Slow
	var text string
	switch {
	case d.GaveUp:
		text = "no answer, the sender went away"
	case d.Answer == nil:
		text = "dropped"
	default:
		text = fmt.Sprintf("answered %d", *d.Answer)
	}
	switch {
	case slow:
		text += ", slow on purpose,"
	case d.Injected != nil && !d.GaveUp:
		text += " on purpose"
	}
	if d.Forwarded {
		text = "forwarded, " + text
	}
	if took == 0 {
		return text + " in under 1ms"
	}
	return fmt.Sprintf("%s in %v", text, took)
}

// showBody formats a body: JSON is indented, and control characters are escaped.
func showBody(out *bytes.Buffer, body []byte) {
	var indented bytes.Buffer
	if json.Indent(&indented, body, "", "  ") != nil {
		indented.Reset()
		indented.Write(body)
	}
	for line := range strings.Lines(indented.String() + "\n") {
		out.WriteString(printable(strings.TrimSuffix(line, "\n")))
		out.WriteByte('\n')
	}
}
