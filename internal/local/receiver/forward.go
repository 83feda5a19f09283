package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// forwardTimeout is twice as long as Weft waits for a response.
	forwardTimeout = 30 * time.Second
	// maxAnswer is far more than Weft reads of a response.
	maxAnswer = 1 << 20
)

// ParseForward parses the URL to which deliveries are forwarded: http or https, without a user or a
// fragment.
func ParseForward(text string) (*url.URL, error) {
	to, err := url.Parse(text)
	switch {
	case err != nil || (to.Scheme != "http" && to.Scheme != "https") || to.Host == "":
		return nil, errors.New("the value must be a URL such as http://127.0.0.1:3000/callbacks") // omits the text, which may contain a password
	case to.User != nil:
		return nil, errors.New("the URL must not contain a user or a password, because other users can see arguments")
	case to.Fragment != "":
		return nil, errors.New("the URL must not have a fragment")
	}
	return to, nil
}

// forwarder forwards deliveries to one URL.
type forwarder struct {
	to        *url.URL
	transport *http.Transport
}

// newForwarder returns a forwarder that ignores the proxies of the environment. The forwarder opens
// a connection for each delivery, because the program may have just closed an idle connection.
func newForwarder(to *url.URL) *forwarder {
	return &forwarder{to: to, transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}}
}

// pass forwards the body and headers unchanged and returns the response. It does not follow
// redirects, and neither does Weft.
func (f *forwarder) pass(in *http.Request, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(in.Context(), forwardTimeout)
	defer cancel()
	out, err := http.NewRequestWithContext(ctx, http.MethodPost, f.target(in.URL), bytes.NewReader(body))
	if err != nil {
		return answer{}, errors.New("the delivery's path is not valid in a URL")
	}
	out.Header = endToEnd(in.Header)
	if out.Header.Get("User-Agent") == "" {
		out.Header["User-Agent"] = nil // otherwise net/http sets its own
	}
	response, err := f.transport.RoundTrip(out)
	switch {
	case in.Context().Err() != nil:
		return answer{}, errors.New("the sender disconnected")
	case errors.Is(err, context.DeadlineExceeded):
		return answer{}, fmt.Errorf("there was no response within %v", forwardTimeout)
	case err != nil:
		return answer{}, err
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusOK {
		return answer{}, fmt.Errorf("the response had status %d", response.StatusCode)
	}
	// Only the status matters: an incomplete body is passed on as far as it was received.
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return answer{status: response.StatusCode, header: endToEnd(response.Header), body: text}, nil
}

// target returns the configured URL. If it has no path, it gets the path and query of the delivery.
func (f *forwarder) target(in *url.URL) string {
	to := *f.to
	if strings.Trim(to.Path, "/") == "" && to.RawQuery == "" {
		to.Path, to.RawPath, to.RawQuery = in.Path, in.RawPath, in.RawQuery
	}
	return to.String()
}

// hop lists the headers that belong to one connection (RFC 9110, 7.6.1).
var hop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length"}

// endToEnd returns the header without the fields that belong to the connection.
func endToEnd(header http.Header) http.Header {
	passed := header.Clone()
	for _, list := range header.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			passed.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hop {
		passed.Del(name)
	}
	return passed
}
