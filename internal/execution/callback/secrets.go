package callback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Secrets are the parts of a callback that must never be shown again: the signing secret and the
// values of the custom headers.
type Secrets struct {
	Secret  *string           `json:"secret,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Params says where and how to deliver a result.
type Params struct {
	URL     string
	Secret  *string
	Headers map[string]string
}

// Stored returns what is stored of the callback of an execution or run in addition to its URL: the
// sealed secrets, nil without any, and the sorted names of its headers.
func (p Params) Stored(keyring *seal.Keyring, workspaceID, id uuid.UUID) (sealed []byte, headerNames []string, err error) {
	sealed, err = Seal(keyring, workspaceID, id, Secrets{Secret: p.Secret, Headers: p.Headers})
	if err != nil {
		return nil, nil, fmt.Errorf("seal callback: %w", err)
	}
	return sealed, slices.Sorted(maps.Keys(p.Headers)), nil
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b string) bool {
	first, err := url.Parse(a)
	if err != nil {
		return false
	}
	second, err := url.Parse(b)
	return err == nil && egress.Origin(first) == egress.Origin(second)
}

// Seal encrypts the secrets of one execution's callback. It returns nil if s is empty.
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

// unseal decrypts what Seal returned.
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
		return s, fmt.Errorf("decode callback secrets: %w", seal.ErrUnsealable) // the JSON error could show part of a secret
	}
	return s, nil
}

// classSecrets is the error class of an attempt that sent nothing because the stored secrets
// cannot be decrypted with the key that they name. Retries cannot succeed.
const classSecrets = "secrets"

const (
	// keyPatience is how long a delivery is passed on between processes that lack the key of its
	// secrets. After that the delivery fails. It is longer than a rollout or a key rotation should
	// take.
	keyPatience = 24 * time.Hour

	// keyGrace is how long a process must have been receiving deliveries whose key it lacks before
	// it may fail such a delivery. After an outage, this delay lets a process that has the key
	// fetch the delivery first.
	keyGrace = time.Hour

	minKeyPause = 5 * time.Second
	maxKeyPause = time.Minute
	keyLogEvery = time.Minute
)

// keyless records when this process received deliveries whose key it lacks.
type keyless struct {
	since  time.Time // start of the current series; a gap of keyGrace starts a new series
	last   time.Time
	logged time.Time
}

// open decrypts the body and the secrets of a delivery. It returns UNAVAILABLE if this process
// lacks the key.
func (d *Deliverer) open(ctx context.Context, c delivery) (body []byte, secrets Secrets, err error) {
	if c.sealed != nil && !d.Keyring.Holds(c.sealed) {
		return nil, secrets, fault.New(fault.Unavailable, "the callback's secrets are sealed under a master key that this process does not have")
	}
	if secrets, err = unseal(d.Keyring, c.WorkspaceID, c.ExecutionID, c.sealed); err != nil {
		return nil, secrets, err
	}
	body, err = d.Vault.Open(ctx, bodyAt(c.WorkspaceID, c.ExecutionID), c.body)
	return body, secrets, err
}

// waitForKey returns how long a delivery that could not be decrypted must wait for a process that
// has its key. It returns 0 if this process must make the attempt, or record that it failed.
func (d *Deliverer) waitForKey(ctx context.Context, c delivery, why error) (retryIn time.Duration, err error) {
	if why == nil || errors.Is(why, seal.ErrUnsealable) {
		return 0, nil
	}
	if fault.CodeOf(why) != fault.Unavailable {
		return 0, why
	}
	lasting, tell := d.noteKeyless(time.Now())
	if tell {
		d.Log.WarnContext(ctx, "callback secrets are sealed under a master key that this process does not have",
			"workspace_id", c.WorkspaceID, "execution_id", c.ExecutionID)
	}
	if lasting && c.unopened >= keyPatience {
		return 0, nil
	}
	if c.unopened <= 0 {
		err := db.New().CallbackSetUnopened(ctx, d.DB, db.CallbackSetUnopenedParams{WorkspaceID: c.WorkspaceID, ExecutionID: c.ExecutionID})
		if err != nil {
			return 0, fmt.Errorf("record that the key of a callback is missing: %w", err)
		}
	}
	return min(max(c.unopened, minKeyPause), maxKeyPause), nil
}

// noteKeyless records a delivery whose key this process lacks. lasting reports whether the current
// series of such deliveries has lasted for keyGrace. The second result reports whether to log it.
func (d *Deliverer) noteKeyless(now time.Time) (lasting, tell bool) {
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

// SealedAt returns the additional data that binds sealed secrets to one execution's callback.
func SealedAt(workspaceID, executionID uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "callbacks", Row: executionID.String(), Field: "sealed"}
}
