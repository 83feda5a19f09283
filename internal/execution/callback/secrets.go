package callback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/seal"
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
	if json.Unmarshal(plain, &s) != nil {
		return s, fmt.Errorf("decode callback secrets: %w", seal.ErrUnsealable) // what is wrong may show some of them
	}
	return s, nil
}

// classSecrets is the class of an attempt that sent nothing, because the stored
// secrets do not open under the very key that they name: they never will.
const classSecrets = "secrets"

const (
	// keyPatience is how long a delivery goes from one process to the next that
	// lacks the key of its secrets: longer than a roll-out or a rotation of keys
	// ought to take.
	keyPatience = 24 * time.Hour

	// keyGrace is how long a process must have been meeting deliveries that it
	// lacks the key for before it ends one. When everything stood still meanwhile,
	// a process with the key gets its turn first.
	keyGrace = time.Hour

	minKeyPause = 5 * time.Second
	maxKeyPause = time.Minute
	keyLogEvery = time.Minute
)

// keyless is what a process remembers of deliveries that it lacks the key for.
type keyless struct {
	since  time.Time // they have come since then, never keyGrace apart
	last   time.Time
	logged time.Time
}

// open opens what of a delivery is sealed. UNAVAILABLE: this process lacks the key.
func (d *Deliverer) open(ctx context.Context, c delivery) (body []byte, secrets Secrets, err error) {
	if c.sealed != nil && !d.Keyring.Holds(c.sealed) {
		return nil, secrets, fault.New(fault.Unavailable, "the secrets are sealed under another master key")
	}
	if secrets, err = unseal(d.Keyring, c.WorkspaceID, c.ExecutionID, c.sealed); err != nil {
		return nil, secrets, err
	}
	body, err = d.Vault.Open(ctx, bodyAt(c.WorkspaceID, c.ExecutionID), c.body)
	return body, secrets, err
}

// lacks reports for how long a delivery that could not be opened has to wait for a process
// that holds its key; 0: it is this one's to make, or to end.
func (d *Deliverer) lacks(ctx context.Context, c delivery, why error) (again time.Duration, err error) {
	if why == nil || errors.Is(why, seal.ErrUnsealable) {
		return 0, nil
	}
	if fault.CodeOf(why) != fault.Unavailable {
		return 0, why
	}
	lasting, tell := d.meetKeyless(time.Now())
	if tell {
		d.Log.WarnContext(ctx, "callbacks are sealed under a master key that this process does not have",
			"workspace_id", c.WorkspaceID, "execution_id", c.ExecutionID)
	}
	if lasting && c.unopened >= keyPatience {
		return 0, nil
	}
	if c.unopened <= 0 {
		err := db.New().CallbackUnopened(ctx, d.DB, db.CallbackUnopenedParams{WorkspaceID: c.WorkspaceID, ExecutionID: c.ExecutionID})
		if err != nil {
			return 0, fmt.Errorf("note that the key of a callback is missing: %w", err)
		}
	}
	return min(max(c.unopened, minKeyPause), maxKeyPause), nil
}

// meetKeyless remembers one more delivery that this process lacks the key for.
// lasting says that they have come for long, tell that it is time to log it.
func (d *Deliverer) meetKeyless(now time.Time) (lasting, tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := &d.keyless
	if now.Sub(k.last) >= keyGrace {
		k.since = now
	}
	k.last = now
	if tell = now.Sub(k.logged) >= keyLogEvery; tell {
		k.logged = now
	}
	return now.Sub(k.since) >= keyGrace, tell
}

// SealedAt names the place of the sealed secrets of one execution's callback.
func SealedAt(workspaceID, executionID uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "callbacks", Row: executionID.String(), Field: "sealed"}
}
