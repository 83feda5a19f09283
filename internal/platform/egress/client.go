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

// ClientOptions are the limits of one kind of exchange with an upstream.
type ClientOptions struct {
	Timeout   time.Duration // of the whole exchange, including the body; 0 means 30 s
	Redirects int           // how many to follow, at most 3; with 0 a redirect is returned like any response
	MaxBytes  int64         // of the response's body, encoded and decoded, beyond which reading fails with ErrTooLarge; 0 means 5 MiB
}

// Client returns an HTTP client for components. Every request, including redirected ones, is
// checked as a target and dialled by the guard. A client is cheap.
//
// The body of a response is decoded: a request accepts gzip, and a body with another coding can't be
// read (see CodingError). Reading a body fails with ErrTooLarge beyond the limit, with ErrBusy if the process
// holds too many large responses, and with a timeout if a large response stalls. A large response
// counts until the context of WithTenant is done.
//
// Each request has its own connection. An upstream may close a reused connection while a request
// is in flight. Then it is unknown whether the upstream processed the request, and net/http
// repeats some such requests.
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

// Post sends a request with a body, over an idle connection if one exists. It follows no redirect
// and doesn't limit the response's body.
//
// The request is sent at most once. net/http repeats a request that failed on a reused connection
// only if the request has no body, or if GetBody can rewind the body. So Post removes GetBody,
// and uses a new connection for a request without a body.
func (g *Guard) Post(request *http.Request) (*http.Response, error) {
	exchangeOf(request.Context()).start(request.Method)
	if err := g.CheckTarget(request.URL); err != nil {
		return nil, err
	}
	if request.ContentLength == 0 {
		return exchange(g.single, marked(request.Context(), request))
	}
	once := marked(request.Context(), request)
	once.GetBody = nil
	return exchange(g.kept, once)
}

// exchange sends a request. It names the limit if the response's headers exceed it, for which net/http
// has no error value.
func exchange(transport *http.Transport, request *http.Request) (*http.Response, error) {
	response, err := transport.RoundTrip(exchangeOf(request.Context()).follow(request))
	if err != nil && strings.Contains(err.Error(), "server response headers exceeded") {
		return nil, fmt.Errorf("%w: %w", ErrHeadersTooLarge, err)
	}
	return response, err
}

// Mark is the header of every request that egress sends. Callers can neither set nor remove it, so
// that a signing proxy can reject what components and callbacks send to it. Its value is constant.
const Mark = "Weft-Egress"

// marked returns a copy of the request with the mark and with a target that HTTP allows.
func marked(ctx context.Context, request *http.Request) *http.Request {
	out := request.Clone(ctx)
	out.Header.Set(Mark, "1")
	encodeTarget(out.URL)
	return out
}

// atOrigin keeps the caller's data from other origins. If a redirect leads to a different origin
// than the first request, the redirected request loses the caller's headers, because any of them
// may be a credential. The redirect fails with a *ForeignError if it would send the body. A
// redirect back to the first origin is treated the same, because the other origin chose its
// target.
func atOrigin(request *http.Request, via []*http.Request) error {
	first := Origin(via[0].URL)
	if Origin(request.URL) == first && !slices.ContainsFunc(via, func(r *http.Request) bool { return Origin(r.URL) != first }) {
		return nil
	}
	if request.Body != nil && request.Body != http.NoBody {
		request.Body.Close()
		return &ForeignError{Origin(request.URL)}
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

// Origin returns the scheme, the host and the port of a URL, without a default port.
func Origin(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" && port != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		host += ":" + port
	}
	return u.Scheme + "://" + host
}

// guarded checks the target of each request and limits the response.
type guarded struct {
	guard    *Guard
	maxBytes int64
	follows  bool
}

func (t *guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	progress := exchangeOf(request.Context())
	progress.start(request.Method)
	if err := t.guard.CheckTarget(request.URL); err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	sent := marked(ctx, request)
	acceptCoding(sent.Header)
	response, err := exchange(t.guard.single, sent)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	response.Request = request
	if t.follows && redirects(response) {
		progress.end() // the body of a redirect isn't read
		if err := encodeLocation(response); err != nil {
			response.Body.Close()
			cancel(nil)
			return nil, err
		}
		keepMethod(response)
	}
	response.Body = &ending{response.Body, progress}
	if size := response.ContentLength; size > t.maxBytes {
		response.Body.Close()
		response.Body = unread{fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrTooLarge, size, t.maxBytes)}
	}
	decode(response, t.maxBytes)
	owner, _ := request.Context().Value(tenancyKey{}).(*tenancy)
	response.Body = &bounded{ReadCloser: response.Body, left: t.maxBytes, budget: t.guard.responses, owner: owner, ctx: ctx, cancel: cancel}
	return response, nil
}

// keepMethod makes net/http follow a redirect with the method of the request. For 301 and 302,
// RFC 9110, section 15.4, lets a client change a POST to a GET. net/http also changes every
// other method, so that a PUT, PATCH or DELETE would only read its target.
func keepMethod(response *http.Response) {
	moved := response.StatusCode == http.StatusMovedPermanently || response.StatusCode == http.StatusFound
	switch response.Request.Method {
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		if moved && response.Header.Get("Location") != "" {
			response.StatusCode = http.StatusPermanentRedirect
		}
	}
}

// unread replaces a body that isn't read. The status and headers of its response remain available.
type unread struct{ err error }

func (u unread) Read([]byte) (int, error) { return 0, u.err }
func (u unread) Close() error             { return nil }
