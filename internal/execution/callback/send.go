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
	maxAnswer      = 16 << 10         // bytes of the response body that are read and discarded
	bodyTimeout    = 500 * time.Millisecond
	userAgent      = "Weft-Callback/1"
)

// Message is one callback to be sent. Every attempt sends the same Message.
type Message struct {
	ID          uuid.UUID // of the execution or run
	OfRun       bool
	Type        string // the webhook-type
	Restores    int32  // how many restores caused the record to be computed again
	URL         string
	Body        []byte // frozen
	Secrets     Secrets
	Traceparent string
}

// webhookID returns the ID by which receivers recognize repeated deliveries. After a restore, the
// ID differs from the ID of earlier deliveries, because the body may differ (decisions 5.4).
func (m Message) webhookID() string {
	if m.Restores == 0 {
		return m.ID.String()
	}
	return fmt.Sprintf("%s.%d", m.ID, m.Restores+1)
}

// outcome is the result of an attempt. It keeps only the status and the Retry-After header of the
// response.
type outcome struct {
	started    time.Time
	took       time.Duration
	status     int    // 0: no response
	class      string // a class of egress, or classSecrets; "" if delivered
	reason     string // a reason of egress, or ""
	sent       string // a Sent constant of egress
	retryAfter time.Duration
}

func (o outcome) delivered() bool { return o.class == "" }

// Sender sends callbacks through the egress guard.
type Sender struct {
	guard   *egress.Guard
	timeout time.Duration
}

// NewSender returns a Sender with the specified timeout per attempt; 0 means 15 s.
func NewSender(guard *egress.Guard, timeout time.Duration) *Sender {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &Sender{guard: guard, timeout: timeout}
}

// send makes one attempt. It returns an error only if no attempt was made, because the message
// cannot be sent at all or ctx is done.
//
// A 2xx response in time is a successful delivery, even if reading the response body fails. The
// body is read, for a short time, only to keep the connection usable.
func (s *Sender) send(ctx context.Context, m Message) (outcome, error) {
	out := outcome{started: time.Now()}
	attempt, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	attempt, exchange := egress.Observe(attempt)
	request, err := s.request(attempt, m, out.started)
	if err != nil {
		return out, err
	}
	response, err := s.guard.Post(request) // a redirect is not followed and counts as a failure
	out.took = time.Since(out.started)
	if err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		out.class, out.reason, out.sent = egress.Class(err), egress.Reason(err, exchange.Begun()), exchange.Sent()
		if odd, ok := errors.AsType[*egress.StatusError](err); ok {
			out.status = odd.Status
		}
		return out, nil
	}
	out.status = response.StatusCode
	out.class, out.sent = classOf(response.StatusCode), egress.SentAnswered // only the status counts
	out.retryAfter = egress.RetryAfter(response.Header, time.Now())
	defer time.AfterFunc(bodyTimeout, cancel).Stop()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer+1)
	response.Body.Close()
	return out, nil
}

// classOf returns the error class of a response status; "" for 2xx.
func classOf(status int) string {
	switch {
	case status >= 200 && status <= 299:
		return ""
	case status >= 300 && status <= 399:
		return egress.ClassRedirect
	}
	return egress.ClassStatus
}

// request builds the POST. It sets the caller's headers first. They cannot conflict with Weft's
// own headers: such names were rejected when the callback was accepted.
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
	h.Set("Webhook-Type", m.Type)
	if m.OfRun {
		h.Set("X-Svc-Run-Id", m.ID.String())
	} else {
		h.Set("X-Svc-Execution-Id", m.ID.String())
	}
	if secret := m.Secrets.Secret; secret != nil {
		h.Set("X-Svc-Signature", signature.CallbackV1(*secret, m.Body))
		h.Set("Webhook-Id", id)
		h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		h.Set("Webhook-Signature", signature.StandardWebhook(*secret, id, now, m.Body))
	}
	return request, nil
}

// refuseOddStatus aborts the request when an informational response arrives that HTTP does not
// define, instead of waiting for the final response.
var refuseOddStatus = &httptrace.ClientTrace{
	Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		if code > http.StatusEarlyHints {
			return &egress.StatusError{Status: code}
		}
		return nil
	},
}
