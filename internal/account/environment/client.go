package environment

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Kinds of variables.
const (
	KindValue = "value"
	KindToken = "oauth2" // the current access token of a Client
)

// How a client ID and its secret are sent.
const (
	AuthHeader = "header"
	AuthBody   = "body"
)

// Client is what an access token is fetched with: client credentials (RFC 6749, section 4.4). It is sealed
// as a whole.
type Client struct {
	TokenURL string `json:"tokenUrl"`
	ID       string `json:"clientId"`
	Secret   string `json:"clientSecret"`
	Scope    string `json:"scope,omitempty"`
	Audience string `json:"audience,omitempty"`
	Auth     string `json:"clientAuth"`
}

// TokenAt returns the AAD of the sealed token of a variable.
func TokenAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "environment_variables", Row: id.String(), Field: "sealed_token"}
}

// checkClient checks the client of a variable that is set.
func (s *Service) checkClient(p SetParams) error {
	c := p.Client
	switch {
	case c == nil || c.TokenURL == "":
		return fault.InvalidAt("/tokenUrl", "is required for the kind oauth2")
	case c.ID == "":
		return fault.InvalidAt("/clientId", "is required for the kind oauth2")
	case p.Secret != nil && !*p.Secret:
		return fault.InvalidAt("/secret", "must not be false: a variable of the kind oauth2 is secret")
	case c.Auth == "":
		c.Auth = AuthHeader
	}
	u, err := url.Parse(c.TokenURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Contains(c.TokenURL, "#") {
		return fault.InvalidAt("/tokenUrl", "must be a URL with https and a host, and without a fragment")
	}
	if s.CheckTarget != nil {
		if err := s.CheckTarget(u); err != nil {
			return fault.InvalidAt("/tokenUrl", "is not allowed: %s", err)
		}
	}
	return nil
}

// sealedAfter returns what is sealed for the client if kind and before are those of the stored variable, which
// is unreadable if the error is set. It returns INVALID_INPUT if the client has no secret and the stored
// one must not be used.
func (c *Client) sealedAfter(kind, before string, unreadable error) (string, error) {
	set := *c
	if set.Secret == "" {
		var stored Client
		switch {
		case kind != KindToken:
			return "", fault.InvalidAt("/clientSecret", "is required for a new variable of the kind oauth2")
		case unreadable != nil || json.Unmarshal([]byte(before), &stored) != nil:
			return "", fault.InvalidAt("/clientSecret", "is required, because the stored secret cannot be decrypted")
		case origin(stored.TokenURL) != origin(set.TokenURL):
			return "", fault.InvalidAt("/clientSecret", "is required, because the origin of tokenUrl changes: a stored secret never follows a changed address")
		}
		set.Secret = stored.Secret
	}
	content, err := strictjson.Encode(set)
	if err != nil {
		return "", errors.New("encode the client of an environment variable") // the cause may contain the secret
	}
	return string(content), nil
}

// origin returns the scheme, the host and the port of a URL.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}

// OpenClient returns the client of a variable.
func OpenClient(keyring *seal.Keyring, workspaceID, id uuid.UUID, sealed []byte) (c Client, err error) {
	plain, err := keyring.Open(sealed, SealedAt(workspaceID, id))
	if err != nil {
		return c, err
	}
	if json.Unmarshal(plain, &c) != nil {
		return c, errors.New("decode the client of an environment variable") // the cause may contain the secret
	}
	return c, nil
}

// showClient adds what may be shown of the client of a variable.
func (s *Service) showClient(shown *api.EnvironmentVariable, workspaceID uuid.UUID, row db.VariableGetRow) error {
	c, err := OpenClient(s.keyring, workspaceID, row.ID, row.Sealed)
	if err != nil {
		return err
	}
	shown.TokenURL, shown.ClientID, shown.ClientAuth = &c.TokenURL, &c.ID, &c.Auth
	if c.Scope != "" {
		shown.Scope = &c.Scope
	}
	if c.Audience != "" {
		shown.Audience = &c.Audience
	}
	return nil
}
