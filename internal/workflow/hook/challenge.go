package hook

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"unicode/utf8"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// sealToken returns the stored form of a verify token: kept if the request contains no token, and
// nil, which removes the token, for an empty one.
func (s *Service) sealToken(key notify.Key, token *string, kept []byte) ([]byte, error) {
	switch {
	case token == nil:
		return kept, nil
	case *token == "":
		return nil, nil
	}
	sealed, err := s.Keyring.Seal([]byte(*token), TokenAt(key.WorkspaceID, key.ID))
	if err != nil {
		return nil, fmt.Errorf("seal the verify token of a hook: %w", err)
	}
	return sealed, nil
}

// Challenge reports whether a sender that verifies the address of a hook knows its verify token: it
// returns nil if so. d needs no header and no body.
//
// Errors: RATE_LIMITED for an address with too many failures, NOT_FOUND for a hook that is unknown
// or has no verify token, FORBIDDEN for a wrong token, and the error of Admit.
func (s *Service) Challenge(ctx context.Context, d Delivery, token string) error {
	source, row, err := s.find(ctx, d)
	if err != nil {
		return err
	}
	if row.SealedToken == nil {
		s.failures.Count(source)
		return errNotFound
	}
	key := notify.Key{WorkspaceID: row.WorkspaceID, ID: d.HookID}
	want, err := s.Keyring.Open(row.SealedToken, TokenAt(key.WorkspaceID, key.ID))
	if err != nil {
		return fmt.Errorf("decrypt the verify token of a hook: %w", err)
	}
	ctx = postgres.Scope(ctx, row.WorkspaceID)
	if !sameToken([]byte(token), want) {
		s.failures.Count(source)
		s.recordRefusal(ctx, key, errWrongToken.Reason)
		return errWrongToken
	}
	return d.Admit(ctx, row.WorkspaceID)
}

var errWrongToken = &fault.Error{
	Code: fault.Forbidden, Reason: "invalid_verify_token", Message: "The verify token is not that of the hook.",
}

// The handshakes that a hook can answer.
const (
	urlVerification = "urlVerification"
	validationToken = "validationToken" // also the name of its query parameter
)

// maxToken limits a validationToken, in bytes.
const maxToken = 4 << 10

func answers(v api.Verification, handshake string) bool {
	return v.Handshake != nil && slices.Contains(*v.Handshake, handshake)
}

// Validate returns the validationToken of a request without a body, which the sender expects back.
//
// Errors: RATE_LIMITED for an address with too many failures, NOT_FOUND for a hook that is unknown
// or doesn't answer this handshake, INVALID_INPUT for a token that is too long, and the error of Admit.
func (s *Service) Validate(ctx context.Context, d Delivery) (string, error) {
	source, row, err := s.find(ctx, d)
	if err != nil {
		return "", err
	}
	var v api.Verification
	if err := json.Unmarshal(row.Verification, &v); err != nil {
		return "", fmt.Errorf("decode the hook's verification settings: %w", err)
	}
	if !answers(v, validationToken) {
		s.failures.Count(source)
		return "", errNotFound
	}
	return s.echo(ctx, source, notify.Key{WorkspaceID: row.WorkspaceID, ID: d.HookID}, d)
}

// echo returns the validationToken of a request. Nothing proves who sent it, so it counts as a
// failure too: otherwise a stranger could use up the rate limits of the workspace.
func (s *Service) echo(ctx context.Context, source netip.Addr, key notify.Key, d Delivery) (string, error) {
	s.failures.Count(source)
	tokens := d.Query[validationToken]
	if len(tokens) != 1 || tokens[0] == "" || len(tokens[0]) > maxToken || !utf8.ValidString(tokens[0]) {
		return "", fault.InvalidAt("/query/validationToken", "must be sent exactly once, with at most %d bytes of UTF-8", maxToken)
	}
	return tokens[0], d.Admit(postgres.Scope(ctx, key.WorkspaceID), key.WorkspaceID)
}

// challengeIn returns the challenge in the input of a run, and whether the delivery is an
// url_verification. It returns INVALID_INPUT for one without a challenge.
func challengeIn(input json.RawMessage) (challenge string, is bool, err error) {
	var of struct {
		Body json.RawMessage
	}
	if err := json.Unmarshal(input, &of); err != nil {
		return "", false, fmt.Errorf("decode the body of a delivery: %w", err)
	}
	var body map[string]any
	if json.Unmarshal(of.Body, &body) != nil || body["type"] != "url_verification" {
		return "", false, nil
	}
	if challenge, _ = body["challenge"].(string); challenge == "" {
		return "", true, fault.InvalidAt("/body/challenge", "is required: the text that the response returns")
	}
	return challenge, true, nil
}

// sameToken compares digests, so that the time of the comparison depends on neither the tokens nor
// their lengths.
func sameToken(sent, want []byte) bool {
	a, b := sha256.Sum256(sent), sha256.Sum256(want)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
