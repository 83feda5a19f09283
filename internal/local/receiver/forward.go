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
	// forwardPatience is twice what Weft waits for an answer.
	forwardPatience = 30 * time.Second
	// maxAnswer is far more than Weft reads of an answer.
	maxAnswer = 1 << 20
)

// ParseForward reads the address that deliveries are handed on to: http or https,
// without a user or a fragment.
func ParseForward(text string) (*url.URL, error) {
	to, err := url.Parse(text)
	switch {
	case err != nil || (to.Scheme != "http" && to.Scheme != "https") || to.Host == "":
		return nil, errors.New("it must be an address such as http://127.0.0.1:3000/callbacks") // the text may hold a password
	case to.User != nil:
		return nil, errors.New("it must not name a user or a password, which whoever lists processes sees")
	case to.Fragment != "":
		return nil, errors.New("it must not have a fragment")
	}
	return to, nil
}

// forwarder hands deliveries on to one address.
type forwarder struct {
	to        *url.URL
	transport *http.Transport
}

// newForwarder goes to the address itself, whatever proxy the environment names. A
// connection for each delivery is never one that the program has just closed.
func newForwarder(to *url.URL) *forwarder {
	return &forwarder{to: to, transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}}
}

// pass sends the very bytes and headers on and gives the answer. A redirect is an
// answer like any other, as it is to Weft.
func (f *forwarder) pass(in *http.Request, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(in.Context(), forwardPatience)
	defer cancel()
	out, err := http.NewRequestWithContext(ctx, http.MethodPost, f.target(in.URL), bytes.NewReader(body))
	if err != nil {
		return answer{}, errors.New("its path makes no address")
	}
	out.Header = endToEnd(in.Header)
	if out.Header.Get("User-Agent") == "" {
		out.Header["User-Agent"] = nil // else the transport names itself
	}
	response, err := f.transport.RoundTrip(out)
	switch {
	case in.Context().Err() != nil:
		return answer{}, errors.New("the sender went away meanwhile")
	case errors.Is(err, context.DeadlineExceeded):
		return answer{}, fmt.Errorf("there was no answer within %v", forwardPatience)
	case err != nil:
		return answer{}, err
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusOK {
		return answer{}, fmt.Errorf("the answer was %d", response.StatusCode)
	}
	// What comes after the status decides nothing: a body that breaks off is passed
	// on as far as it came.
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return answer{status: response.StatusCode, header: endToEnd(response.Header), body: text}, nil
}

// target is the address as it was given; one without a path takes path and query of
// the delivery.
func (f *forwarder) target(in *url.URL) string {
	to := *f.to
	if strings.Trim(to.Path, "/") == "" && to.RawQuery == "" {
		to.Path, to.RawPath, to.RawQuery = in.Path, in.RawPath, in.RawQuery
	}
	return to.String()
}

// hop are the headers that belong to one connection (RFC 9110, 7.6.1).
var hop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length"}

// endToEnd is header without what belongs to the connection that it came over.
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
