package egress

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	maxRedirects   = 3
	defaultTimeout = 30 * time.Second
	defaultBytes   = 5 << 20
)

// ClientOptions bounds one kind of exchange with an upstream.
type ClientOptions struct {
	Timeout   time.Duration // of the whole exchange, the body included; 0 = 30 s
	Redirects int           // how many to follow, at most 3; 0 = a redirect is an answer like any other
	MaxBytes  int64         // of the answer's body; 0 = 5 MiB; more gives ErrTooLarge
}

// Client makes an HTTP client for components. Every request, redirected ones
// included, is checked as a target and dialled by the guard. A client is cheap.
//
// Reading an answer's body fails with ErrTooLarge beyond the limit, with ErrBusy
// when the process holds too many large answers, and with a timeout when a large
// answer stalls. A large answer counts until the context of WithTenant ends.
//
// Each request has a connection of its own. On a reused one an upstream may close
// while the request is on its way: nobody knows then whether the request was
// processed, and net/http sends some such requests again.
func (g *Guard) Client(options ClientOptions) *http.Client {
	if options.Timeout <= 0 {
		options.Timeout = defaultTimeout
	}
	if options.MaxBytes <= 0 {
		options.MaxBytes = defaultBytes
	}
	limit := min(options.Redirects, maxRedirects)
	return &http.Client{
		Timeout:   options.Timeout,
		Transport: &guarded{guard: g, maxBytes: options.MaxBytes, follows: limit > 0},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			if limit <= 0 {
				return http.ErrUseLastResponse
			}
			if len(via) > limit {
				return &RedirectError{limit}
			}
			return atOrigin(request, via)
		},
	}
}

// Post sends a request with a body, over a kept connection if there is one. It
// follows no redirect and does not bound the answer's body.
//
// The request is sent at most once. net/http repeats a request that failed on a
// reused connection only if it has no body or can rewind it with GetBody: so the
// body loses its GetBody, and a request without a body gets a new connection.
func (g *Guard) Post(request *http.Request) (*http.Response, error) {
	if err := g.CheckTarget(request.URL); err != nil {
		return nil, err
	}
	if request.ContentLength == 0 {
		return g.single.RoundTrip(request)
	}
	once := request.WithContext(request.Context())
	once.GetBody = nil
	return g.kept.RoundTrip(once)
}

// atOrigin prevents that another origin receives what the caller sent. A redirect that leaves
// the origin of the first request loses the caller's headers, since any of them may
// be a credential, and fails with a *ForeignError if it would carry the body. It
// stays foreign if it leads back: the other origin chose where.
func atOrigin(request *http.Request, via []*http.Request) error {
	first := origin(via[0].URL)
	if origin(request.URL) == first && !slices.ContainsFunc(via, func(r *http.Request) bool { return origin(r.URL) != first }) {
		return nil
	}
	if request.Body != nil && request.Body != http.NoBody {
		request.Body.Close()
		return &ForeignError{origin(request.URL)}
	}
	for name := range request.Header {
		switch name {
		case "Accept", "Accept-Language", "Content-Type", "User-Agent":
		default:
			request.Header.Del(name)
		}
	}
	return nil
}

// origin is scheme, host and port, the default port left out.
func origin(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" && port != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		host += ":" + port
	}
	return u.Scheme + "://" + host
}

// guarded checks the target of each request and bounds the answer.
type guarded struct {
	guard    *Guard
	maxBytes int64
	follows  bool
}

func (t *guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.guard.CheckTarget(request.URL); err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	response, err := t.guard.single.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	response.Request = request
	if response.ContentLength > t.maxBytes {
		response.Body.Close()
		cancel(nil)
		return nil, fmt.Errorf("%w: the answer has %d bytes, the limit is %d", ErrTooLarge, response.ContentLength, t.maxBytes)
	}
	if t.follows {
		keepMethod(response)
	}
	owner, _ := request.Context().Value(tenancyKey{}).(*tenancy)
	response.Body = &bounded{ReadCloser: response.Body, left: t.maxBytes, budget: t.guard.answers, owner: owner, ctx: ctx, cancel: cancel}
	return response, nil
}

// keepMethod has a redirect followed by the method that was asked for. RFC 9110, section 15.4.2,
// lets a client make a GET of a POST; net/http makes one of every other method, too, and what
// was to be changed or deleted would only be read.
func keepMethod(response *http.Response) {
	moved := response.StatusCode == http.StatusMovedPermanently || response.StatusCode == http.StatusFound
	switch response.Request.Method {
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		if moved && response.Header.Get("Location") != "" {
			response.StatusCode = http.StatusPermanentRedirect
		}
	}
}
