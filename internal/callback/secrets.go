package callback

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/seal"
)

// Secrets is what of a callback must never be seen again: the signing secret
// and the values of the custom headers.
type Secrets struct {
	Secret  *string           `json:"secret,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Seal encrypts the secrets of one execution's callback; nil when there are
// none.
func Seal(keyring *seal.Keyring, workspaceID, executionID uuid.UUID, s Secrets) ([]byte, error) {
	if s.Secret == nil && len(s.Headers) == 0 {
		return nil, nil
	}
	plain, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode callback secrets: %w", err)
	}
	return keyring.Seal(plain, SealedAt(workspaceID, executionID))
}

// unseal is the reverse of Seal.
func unseal(keyring *seal.Keyring, workspaceID, executionID uuid.UUID, sealed []byte) (Secrets, error) {
	var s Secrets
	if sealed == nil {
		return s, nil
	}
	plain, err := keyring.Open(sealed, SealedAt(workspaceID, executionID))
	if err != nil {
		return s, fmt.Errorf("open callback secrets: %w", err)
	}
	if err := json.Unmarshal(plain, &s); err != nil {
		return s, fmt.Errorf("decode callback secrets: %w", err)
	}
	return s, nil
}

// SealedAt names the place of the sealed secrets of one execution's callback.
func SealedAt(workspaceID, executionID uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "callbacks", Row: executionID.String(), Field: "sealed"}
}
