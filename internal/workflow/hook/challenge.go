package hook

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"

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

// sameToken compares digests, so that the time of the comparison depends on neither the tokens nor
// their lengths.
func sameToken(sent, want []byte) bool {
	a, b := sha256.Sum256(sent), sha256.Sum256(want)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
