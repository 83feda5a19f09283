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

// Signer holds one API key and its secret.
type Signer struct {
	key     string
	private ed25519.PrivateKey
	offset  atomic.Int64 // seconds from this machine's clock to the server's, once learnt
}

// NewSigner reads the two texts that the creation of a key gave.
func NewSigner(apiKey, apiSecret string) (*Signer, error) {
	if !strings.HasPrefix(apiKey, "ws_") {
		return nil, fmt.Errorf("an API key begins with ws_")
	}
	private, err := signature.ParseSecret(apiSecret)
	if err != nil {
		return nil, err
	}
	return &Signer{key: apiKey, private: private}, nil
}

// Sign sets the three headers (contract 5.2) for a request to target, which is everything
// after the host on the request line that the service receives.
func (s *Signer) Sign(header http.Header, method, target string, body []byte, now time.Time) {
	timestamp := strconv.FormatInt(now.Unix()+s.offset.Load(), 10)
	message := signature.Message(method, target, timestamp, body)
	header["X-Api-Key"] = []string{s.key}
	header["X-Sdk-Timestamp"] = []string{timestamp}
	header["X-Sdk-Signature"] = []string{signature.Format(signature.Sign(s.private, message))}
}

// Transport signs every request that goes through it. When the server says that
// this machine's clock is off, it learns by how much and sends the request once
// more: a refused request did nothing.
type Transport struct {
	Signer *Signer
	Prefix string            // path of the base URL, which a proxy removes: it is not signed
	Base   http.RoundTripper // nil: http.DefaultTransport
}

// RoundTrip sends request with the three headers added.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		request.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("read the request's body: %w", err)
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
	t.Signer.offset.CompareAndSwap(offset, offset-delta) // else: another request has just learnt it
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

// clockDelta is what a 401 says of our timestamp, 0 if it is about something
// else. The answer's body can be read again afterwards.
func clockDelta(answer *http.Response) (int64, error) {
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	answer.Body.Close()
	if err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(raw))
	return deltaOf(raw), nil
}

// deltaOf reads a problem; what is none says nothing of a clock.
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
