package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/weft-automation/weft/internal/local/client"
)

// target selects which Weft a command calls, and with which key.
type target struct {
	Credentials string `placeholder:"FILE" default:"${credentials}" help:"Credentials file; weft dev writes one (${default})."`
	BaseURL     string `name:"base-url" placeholder:"URL" default:"${base_url}" help:"Base URL of the service, instead of the base URL in the credentials file."`
}

var errNoCredentials = errors.New("there is no credentials file")

// read returns the credentials with the effective base URL.
func (t target) read() (client.Credentials, error) {
	c, err := client.ReadCredentials(t.Credentials)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%w %s: start `weft dev` here, or set --credentials", errNoCredentials, t.Credentials)
	}
	if err != nil {
		return c, coded{err, exitAuthentication}
	}
	if t.BaseURL != "" {
		c.BaseURL = t.BaseURL
	}
	if c.BaseURL == "" {
		return c, fmt.Errorf("the credentials file %s has no baseUrl; set --base-url", t.Credentials)
	}
	return c, nil
}

// signer returns the credentials and a signer for them.
func (t target) signer() (client.Credentials, *client.Signer, error) {
	c, err := t.read()
	if err != nil {
		return c, nil, err
	}
	signer, err := client.NewSigner(c.APIKey, c.APISecret)
	if err != nil {
		return c, nil, fmt.Errorf("credentials file %s: %w", t.Credentials, err)
	}
	return c, signer, nil
}

// transport returns the transport of requests. With --verbose, it prints each of them.
func (s *session) transport() http.RoundTripper {
	if !s.Verbose {
		return http.DefaultTransport
	}
	return logged{s}
}

type logged struct{ *session }

// RoundTrip sends the request, and prints what was requested and how long it took.
func (l logged) RoundTrip(request *http.Request) (*http.Response, error) {
	start := time.Now()
	answer, err := http.DefaultTransport.RoundTrip(request)
	result := "no answer"
	if err == nil {
		result = answer.Status
	}
	l.note("%s %s: %s in %v", request.Method, printable(request.URL.RequestURI()), result, time.Since(start).Round(time.Millisecond))
	return answer, err
}
