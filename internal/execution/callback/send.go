package callback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/secret/signature"
)

const (
	defaultTimeout = 15 * time.Second // decisions 5.2
	maxAnswer      = 16 << 10         // of the answer's body is read, and thrown away
	drainTime      = 500 * time.Millisecond
	userAgent      = "Weft-Callback/1"
)

// Message is one callback as it is to be sent: the same at every attempt.
type Message struct {
	ExecutionID uuid.UUID
	Restores    int32 // how many restores made the record be computed again
	URL         string
	Body        []byte // frozen
	Secrets     Secrets
	Traceparent string
}

// webhookID returns the id by which receivers recognize repeats. After a restore it
// differs from that of deliveries before it, because the body may differ (decisions 5.4).
func (m Message) webhookID() string {
	if m.Restores == 0 {
		return m.ExecutionID.String()
	}
	return fmt.Sprintf("%s.%d", m.ExecutionID, m.Restores+1)
}

// outcome is what is kept of an attempt: nothing that the receiver said beyond
// its status and when to come again.
type outcome struct {
	begun      time.Time
	took       time.Duration
	status     int    // 0: there was no answer
	class      string // of egress.Classes, or classSecrets; "" when delivered
	retryAfter time.Duration
}

func (o outcome) delivered() bool { return o.class == "" }

// Sender posts callbacks through the guard.
type Sender struct {
	guard   *egress.Guard
	timeout time.Duration
}

// NewSender makes a sender whose attempts end after timeout (0: 15 s).
func NewSender(guard *egress.Guard, timeout time.Duration) *Sender {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &Sender{guard: guard, timeout: timeout}
}

// send makes one attempt. The error is of our own making only (the message
// cannot be sent at all, or ctx ended): it is no attempt then.
//
// A 2xx in time is a delivery, whatever becomes of the answer's body: that is
// read only to keep the connection usable, and not for long.
func (s *Sender) send(ctx context.Context, m Message) (outcome, error) {
	out := outcome{begun: time.Now()}
	attempt, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := s.request(attempt, m, out.begun)
	if err != nil {
		return out, err
	}
	response, err := s.guard.Post(request) // a redirect is an answer, and a failure
	out.took = time.Since(out.begun)
	if err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		out.class = egress.Class(err)
		if odd, ok := errors.AsType[*egress.StatusError](err); ok {
			out.status = odd.Status
		}
		return out, nil
	}
	out.status = response.StatusCode
	out.class = classOf(response.StatusCode)
	out.retryAfter = egress.RetryAfter(response.Header, time.Now())
	defer time.AfterFunc(drainTime, cancel).Stop()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer+1)
	response.Body.Close()
	return out, nil
}

func classOf(status int) string {
	switch {
	case status >= 200 && status <= 299:
		return ""
	case status >= 300 && status <= 399:
		return egress.ClassRedirect
	}
	return egress.ClassStatus
}

// request builds the POST. The caller's headers come first: none of them can
// take the place of ours, as the header gate saw to when they were accepted.
func (s *Sender) request(ctx context.Context, m Message, now time.Time) (*http.Request, error) {
	ctx = httptrace.WithClientTrace(ctx, refuseOddStatus)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return nil, fmt.Errorf("make callback request: %w", err)
	}
	h := request.Header
	if m.Traceparent != "" {
		h.Set("Traceparent", m.Traceparent)
	}
	for name, value := range m.Secrets.Headers {
		h.Set(name, value)
	}
	id := m.webhookID()
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", userAgent)
	h.Set("X-Svc-Execution-Id", m.ExecutionID.String())
	if secret := m.Secrets.Secret; secret != nil {
		h.Set("X-Svc-Signature", signature.CallbackV1(*secret, m.Body))
		h.Set("Webhook-Id", id)
		h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		h.Set("Webhook-Signature", signature.StandardWebhook(*secret, id, now, m.Body))
	}
	return request, nil
}

// refuseOddStatus ends an exchange at an informational answer that HTTP does
// not know, instead of waiting for what may follow it.
var refuseOddStatus = &httptrace.ClientTrace{
	Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		if code > http.StatusEarlyHints {
			return &egress.StatusError{Status: code}
		}
		return nil
	},
}
