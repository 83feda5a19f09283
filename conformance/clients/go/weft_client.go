// Package weft is a client of Weft: weft.gen.go is made from openapi.yaml, and the rest signs,
// reads event streams and verifies callbacks. Copy or import it. weft_signer.go has the signer.
//
//	signer, err := signers.NewSigner(apiKey, apiSecret)
//	signing := &http.Client{Transport: weft.Transport{Signer: signer, BaseURL: baseURL}}
//	client, err := weft.NewClientWithResponses(baseURL, weft.WithHTTPClient(signing))
//
// The invariant: each attempt is signed separately, over exactly the bytes that are sent.
package weft

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// RequestSigner creates signed requests. The Signer of weft_signer.go implements it.
type RequestSigner interface {
	Request(ctx context.Context, method, baseURL, path string, body []byte) (*http.Request, error)
}

// Transport signs requests. It retries requests that a rate limit rejects after Retry-After,
// with at most five attempts. It logs a warning with the names in Weft-Ignored.
type Transport struct {
	Signer RequestSigner
	// BaseURL is the base URL of the client. It is required if it has a path that a proxy
	// removes, such as https://example.com/weft: the path is sent, but not signed.
	BaseURL string
	Base    http.RoundTripper // nil means http.DefaultTransport
}

// RoundTrip reads the whole body of a request, then signs and sends the request.
func (t Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	prefix, target, err := t.split(request.URL)
	if err != nil {
		return nil, err
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	for attempt := 1; ; attempt++ {
		signed, err := t.Signer.Request(request.Context(), request.Method, prefix, target, body)
		if err != nil {
			return nil, err
		}
		for name, values := range request.Header {
			if signed.Header.Get(name) == "" {
				signed.Header[name] = values
			}
		}
		answer, err := base.RoundTrip(signed)
		if err == nil && answer.Header.Get("Weft-Ignored") != "" {
			slog.WarnContext(request.Context(), "Weft does not know and ignored parts of a request", "method", request.Method, "path", target, "ignored", answer.Header.Get("Weft-Ignored"))
		}
		if err != nil || attempt == 5 || !repeatable(answer) {
			return answer, err
		}
		answer.Body.Close()
		select {
		case <-time.After(retryAfter(answer)):
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
}

// repeatable reports whether to send the request again. A 503 without Retry-After may have taken
// effect.
func repeatable(answer *http.Response) bool {
	return answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != ""
}

// split returns the part of a URL that is not signed, and the part that is.
func (t Transport) split(of *url.URL) (baseURL, target string, err error) {
	base, err := url.Parse(t.BaseURL)
	if err != nil {
		return "", "", err
	}
	prefix := strings.TrimRight(base.EscapedPath(), "/")
	target, ok := strings.CutPrefix(of.RequestURI(), prefix)
	if !ok {
		return "", "", fmt.Errorf("%s is not below the base URL %s", of, base)
	}
	return of.Scheme + "://" + of.Host + prefix, target, nil
}

func bodyOf(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	defer request.Body.Close()
	return io.ReadAll(request.Body)
}

// retryAfter returns the delay of the header, or one second if the header is missing.
func retryAfter(answer *http.Response) time.Duration {
	seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 31)
	if err != nil {
		return time.Second
	}
	return time.Duration(seconds) * time.Second
}

// Answered is the response of an operation of the generated client.
type Answered interface {
	StatusCode() int
	GetApplicationProblemJSONDefault() *Failure
}

// Refusal is the error for a response that is not a success. Its Code is stable. Its text ends with
// the path of the page that explains the causes.
type Refusal struct{ Problem }

func (r *Refusal) Error() string {
	text := fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Detail)
	if r.Docs != "" {
		text += " See " + r.Docs + " of the deployment."
	}
	return text
}

// Check returns nil for a success, otherwise a *Refusal.
func Check(answered Answered) error {
	if answered.StatusCode() == http.StatusOK {
		return nil
	}
	if problem := answered.GetApplicationProblemJSONDefault(); problem != nil {
		return &Refusal{*problem}
	}
	return &Refusal{Problem{Status: int32(answered.StatusCode()), Detail: "the response is not a problem document"}}
}
