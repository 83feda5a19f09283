package accesstoken

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	fetchTimeout = 10 * time.Second
	maxAnswer    = 64 << 10
	// unlimited is the life of a token whose server names none: it is used until a call is refused.
	unlimited = time.Hour
	maxLife   = 365 * 24 * time.Hour
)

// fetched is a token from its server.
type fetched struct {
	token string
	life  time.Duration // from the moment of the request
}

// fetch asks the server of a client for a token.
func fetch(ctx context.Context, guard *egress.Guard, c environment.Client) (fetched, *Error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	for name, value := range map[string]string{"scope": c.Scope, "audience": c.Audience} {
		if value != "" {
			form.Set(name, value)
		}
	}
	if c.Auth == environment.AuthBody {
		form.Set("client_id", c.ID)
		form.Set("client_secret", c.Secret)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return fetched{}, final("the token address is not a URL")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "Weft")
	if c.Auth != environment.AuthBody {
		request.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret)) // RFC 6749, section 2.3.1
	}
	response, err := guard.Client(egress.ClientOptions{Timeout: fetchTimeout, MaxBytes: maxAnswer}).Do(request)
	if err != nil {
		return fetched{}, unreachable(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch status := response.StatusCode; {
	case status < 200 || status > 299:
		return fetched{}, refused(status, body)
	case err != nil:
		return fetched{}, unreachable(err)
	}
	return parse(body)
}

// unreachable returns the error of an exchange that failed.
func unreachable(err error) *Error {
	switch egress.Class(err) {
	case egress.ClassBlocked:
		return final("the token address is not allowed")
	case egress.ClassTimeout:
		return passing("the token address did not answer within %d seconds", int(fetchTimeout.Seconds()))
	case egress.ClassTooLarge:
		return passing("the answer of the token address has more than %d KiB", maxAnswer>>10)
	}
	return passing("the token address cannot be reached (%s)", egress.Class(err))
}

// words are the values of `error` in the answer of a token address (RFC 6749, sections 4.1.2.1 and 5.2). Nothing else of an
// answer is shown.
var words = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"access_denied", "server_error", "temporarily_unavailable",
}

// refused returns the error for an answer that is not a success.
func refused(status int, body []byte) *Error {
	why := passing("the token address answered %d", status)
	if status >= 300 && status <= 399 {
		why = passing("the token address answered %d, and redirects are not followed", status)
	}
	why.Status = status
	var answer struct{ Error string }
	if json.Unmarshal(body, &answer) == nil && slices.Contains(words, answer.Error) {
		why.Word = answer.Error
		why.Reason += " (" + answer.Error + ")"
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden: // a wrong secret that is tried for a day locks the client
		why.Retryable = false
	}
	return why
}

// parse reads the answer of a token address.
func parse(body []byte) (fetched, *Error) {
	var answer struct {
		AccessToken string          `json:"access_token"`
		TokenType   *string         `json:"token_type"`
		ExpiresIn   json.RawMessage `json:"expires_in"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return fetched{}, passing("the answer of the token address is not the JSON of a token")
	}
	switch {
	case answer.AccessToken == "":
		return fetched{}, passing("the answer of the token address has no access_token")
	case strings.ContainsFunc(answer.AccessToken, func(r rune) bool { return r < ' ' || r > '~' }):
		return fetched{}, passing("the access_token of the token address has characters that a token cannot have")
	case answer.TokenType != nil && !strings.EqualFold(*answer.TokenType, "Bearer"):
		return fetched{}, passing("the token_type of the token address is not Bearer")
	}
	life, ok := lifeOf(answer.ExpiresIn)
	if !ok {
		return fetched{}, passing("the expires_in of the token address is not a positive number of seconds")
	}
	return fetched{answer.AccessToken, life}, nil
}

// lifeOf reads expires_in: a number, or its digits as text.
func lifeOf(raw json.RawMessage) (life time.Duration, ok bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return unlimited, true
	}
	text := string(bytes.Trim(raw, `"`))
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "xXpP_iInN") || seconds < 1 {
		return 0, false
	}
	return time.Duration(min(seconds, maxLife.Seconds())) * time.Second, true
}
