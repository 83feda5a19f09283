package client

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// Signer signs requests with one API key.
type Signer struct {
	key     string
	private ed25519.PrivateKey
	offset  atomic.Int64 // seconds from this machine's clock to the server's, once known
}

// NewSigner returns a signer for the key and the secret returned when the key was created.
func NewSigner(apiKey, apiSecret string) (*Signer, error) {
	if !strings.HasPrefix(apiKey, "ws_") {
		return nil, fmt.Errorf("invalid API key: it must start with ws_")
	}
	private, err := signature.ParseSecret(apiSecret)
	if err != nil {
		return nil, err
	}
	return &Signer{key: apiKey, private: private}, nil
}

// Sign sets the three headers (contract 5.2) of a request to target, which is everything after the
// host as the service receives it.
func (s *Signer) Sign(header http.Header, method, target string, body []byte, now time.Time) {
	timestamp := strconv.FormatInt(now.Unix()+s.offset.Load(), 10)
	message := signature.Message(method, target, timestamp, body)
	header["X-Api-Key"] = []string{s.key}
	header["X-Sdk-Timestamp"] = []string{timestamp}
	header["X-Sdk-Signature"] = []string{signature.Format(signature.Sign(s.private, message))}
}

// Transport signs every request. If the server rejects a request because this machine's clock is off,
// it stores the difference and sends the request once more. That is safe, because a rejected request
// has no effect.
type Transport struct {
	Signer *Signer
	Prefix string            // path of the base URL, which a proxy removes, so it is not signed
	Base   http.RoundTripper // nil: http.DefaultTransport
}

// RoundTrip sends the request with the three headers added.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		request.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("read the request body: %w", err)
		}
	}
	offset := t.Signer.offset.Load()
	answer, err := t.send(request, body)
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		return answer, err
	}
	delta, err := clockDelta(answer)
	if err != nil || delta == 0 {
		return answer, err
	}
	answer.Body.Close()
	t.Signer.offset.CompareAndSwap(offset, offset-delta) // if it fails, another request has just stored it
	return t.send(request, body)
}

func (t *Transport) send(request *http.Request, body []byte) (*http.Response, error) {
	signed := request.Clone(request.Context())
	signed.Body, signed.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		signed.Body = io.NopCloser(bytes.NewReader(body))
		signed.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	received := strings.TrimPrefix(signed.URL.RequestURI(), t.Prefix)
	t.Signer.Sign(signed.Header, signed.Method, received, body, time.Now())
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(signed)
}

// clockDelta returns the clock difference that a 401 response reports, or 0 if the response has a
// different reason. The body can be read again afterwards.
func clockDelta(answer *http.Response) (int64, error) {
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	answer.Body.Close()
	if err != nil {
		return 0, fmt.Errorf("read the response: %w", err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(raw))
	return deltaOf(raw), nil
}

// deltaOf returns the clock difference in a problem, or 0 if there is no such problem.
func deltaOf(raw []byte) int64 {
	var p api.Problem
	if json.Unmarshal(raw, &p) != nil || p.Reason == nil || p.DeltaSeconds == nil {
		return 0
	}
	if *p.Reason != "timestamp_expired" && *p.Reason != "timestamp_in_future" {
		return 0
	}
	return *p.DeltaSeconds
}
