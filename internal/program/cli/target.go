package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/weft-automation/weft/internal/local/client"
)

// target selects which Weft a command calls, and with which key.
type target struct {
	Profile     string `placeholder:"NAME" xor:"credentials" help:"Profile with the credentials ($$WEFT_PROFILE, else the profile in use); see weft profile."`
	Credentials string `placeholder:"FILE" xor:"credentials" help:"Credentials file ($$WEFT_CREDENTIALS). Without a profile, the file of weft dev is used (${credentials})."`
	BaseURL     string `name:"base-url" placeholder:"URL" default:"${base_url}" help:"Base URL of the service, instead of the base URL in the credentials file."`
}

var errNoCredentials = errors.New("there is no credentials file")

// file returns the credentials file: of a flag, else of the environment, else of the profile in use,
// else of weft dev.
func (t target) file(s *session) (string, error) {
	name := t.Profile
	if file := t.Credentials; name == "" && file != "" {
		return file, nil
	}
	if file := s.getenv("WEFT_CREDENTIALS"); name == "" && file != "" {
		return file, nil
	}
	if name = cmp.Or(name, s.getenv("WEFT_PROFILE"), s.profileInUse()); name != "" {
		return s.profileFile(name)
	}
	return s.devCredentials(), nil
}

// read returns the credentials with the effective base URL.
func (t target) read(s *session) (client.Credentials, error) {
	file, err := t.file(s)
	if err != nil {
		return client.Credentials{}, err
	}
	c, err := client.ReadCredentials(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%w %s: start `weft dev` here, or set --credentials or --profile", errNoCredentials, file)
	}
	if err != nil {
		return c, coded{err, exitAuthentication}
	}
	if t.BaseURL != "" {
		c.BaseURL = t.BaseURL
	}
	if c.BaseURL == "" {
		return c, fmt.Errorf("the credentials file %s has no baseUrl; set --base-url", file)
	}
	return c, nil
}

// signer returns the credentials and a signer for them.
func (t target) signer(s *session) (client.Credentials, *client.Signer, error) {
	c, err := t.read(s)
	if err != nil {
		return c, nil, err
	}
	signer, err := client.NewSigner(c.APIKey, c.APISecret)
	if err != nil {
		return c, nil, fmt.Errorf("the credentials for %s: %w", c.BaseURL, err)
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
