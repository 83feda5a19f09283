package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/execution/present"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/vault"
)

// prepareCallback sets the row of the run's callback, if it has one.
func (s *Service) prepareCallback(p TriggerParams, n *newRun) error {
	if p.Callback == nil {
		return nil
	}
	sealed, names, err := p.Callback.Stored(s.Executions.Keyring, p.WorkspaceID, n.id)
	if err != nil {
		return err
	}
	n.callback = &db.CallbackInsertForRunParams{
		WorkspaceID: p.WorkspaceID, RunID: n.id, URL: p.Callback.URL, Sealed: sealed, Signed: p.Callback.Secret != nil, HeaderNames: append([]string{}, names...),
	}
	if p.Traceparent != "" {
		n.callback.Traceparent = &p.Traceparent
	}
	return nil
}

// callbacks returns the callbacks of those runs that have one. A callback may be attempted after the row
// of its run was read: an unfinished run shows no attempt.
func (s *Service) callbacks(ctx context.Context, workspaceID uuid.UUID, rows []db.RunGetRow) (map[uuid.UUID]*api.ComponentExecutionCallback, error) {
	var ids []uuid.UUID
	final := map[uuid.UUID]bool{}
	for _, row := range rows {
		if row.HasCallback {
			ids, final[row.ID] = append(ids, row.ID), row.Status.Terminal()
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := db.New().CallbackListOfRuns(ctx, s.API, db.CallbackListOfRunsParams{WorkspaceID: workspaceID, RunIds: ids})
	if err != nil {
		return nil, fmt.Errorf("read the callbacks of runs: %w", err)
	}
	shown := map[uuid.UUID]*api.ComponentExecutionCallback{}
	for _, c := range found {
		row := present.CallbackRow{URL: c.URL, Signed: c.Signed, HeaderNames: c.HeaderNames}
		if final[c.ExecutionID] {
			row.AttemptCount, row.LastAttemptAt, row.DeliveredAt, row.LastError = c.AttemptCount, c.LastAttemptAt, c.DeliveredAt, c.LastError
		}
		shown[c.ExecutionID] = new(present.Callback(row))
	}
	return shown, nil
}

// CallbackChange is what a request changes in the callback that a schedule or a hook has for its runs. The
// zero value changes nothing.
type CallbackChange struct {
	URL, Secret CallbackField[*string]
	Headers     CallbackField[map[string]string]
}

// CallbackField is a field of a request. A field that is not given keeps the stored value, and a nil value
// removes it.
type CallbackField[T any] struct {
	Given bool
	Value T
}

// StoredCallback is the callback that a schedule or a hook has for its runs. The zero value has no URL.
type StoredCallback struct {
	Shown  json.RawMessage // the form of the API
	Sealed []byte          // nil: neither a secret nor headers
}

// ChangeCallback applies a change to the callback at a place. It returns INVALID_INPUT for a secret or
// headers without a URL (400), and for stored ones that the change would send to another origin (422,
// decisions 2.8).
func (s *Service) ChangeCallback(ctx context.Context, at vault.Place, change CallbackChange, kept StoredCallback) (StoredCallback, error) {
	if !change.URL.Given && !change.Secret.Given && !change.Headers.Given {
		return kept, nil
	}
	var was callback.Params
	if !change.URL.Given || change.URL.Value != nil {
		stored, err := s.OpenCallback(ctx, at, kept)
		if err != nil && (!change.URL.Given || !change.Secret.Given || !change.Headers.Given) {
			return StoredCallback{}, err
		}
		if err == nil && stored != nil {
			was = *stored
		}
	}
	changed := was
	if change.URL.Given {
		if changed.URL = ""; change.URL.Value != nil {
			changed.URL = *change.URL.Value
		}
	}
	if change.Secret.Given {
		changed.Secret = change.Secret.Value
	}
	if change.Headers.Given {
		changed.Headers = change.Headers.Value
	}
	if err := checkCallback(change, was, changed); err != nil || changed.URL == "" {
		return StoredCallback{}, err
	}
	return s.sealCallback(ctx, at, changed)
}

// checkCallback checks the fields of a callback together.
func checkCallback(change CallbackChange, was, changed callback.Params) error {
	var reason string
	switch {
	case changed.URL == "":
		reason = "requires a callbackUrl. Add the URL or omit this field"
	case was.URL != "" && !callback.SameOrigin(was.URL, changed.URL):
		reason = "must be sent again, or be null: it is stored for another origin than that of callbackUrl"
	default:
		return nil
	}
	var details []fault.Detail
	if changed.Secret != nil && (changed.URL == "" || !change.Secret.Given) {
		details = append(details, fault.NewDetail("/callbackSecret", reason))
	}
	if changed.Headers != nil && (changed.URL == "" || !change.Headers.Given) {
		details = append(details, fault.NewDetail("/callbackHeaders", reason))
	}
	if len(details) == 0 {
		return nil
	}
	if changed.URL == "" {
		return fault.Malformed(details)
	}
	return fault.Unprocessable(details)
}

func (s *Service) sealCallback(ctx context.Context, at vault.Place, p callback.Params) (stored StoredCallback, err error) {
	shown := present.Callback(present.CallbackRow{URL: p.URL, Signed: p.Secret != nil, HeaderNames: slices.Sorted(maps.Keys(p.Headers))})
	stored.Shown, err = json.Marshal(api.RunCallback{URL: p.URL, Signed: shown.Signed, SignatureAlgorithm: shown.SignatureAlgorithm, HeaderNames: shown.HeaderNames})
	if err != nil {
		return StoredCallback{}, fmt.Errorf("encode a callback: %w", err)
	}
	if p.Secret == nil && len(p.Headers) == 0 {
		return stored, nil
	}
	plain, err := json.Marshal(callback.Secrets{Secret: p.Secret, Headers: p.Headers})
	if err != nil {
		return StoredCallback{}, fmt.Errorf("encode the secrets of a callback: %w", err)
	}
	stored.Sealed, err = s.Vault.Seal(ctx, at, plain)
	return stored, err
}

// OpenCallback returns the TriggerParams.Callback of a run that a schedule or a hook starts.
func (s *Service) OpenCallback(ctx context.Context, at vault.Place, stored StoredCallback) (*callback.Params, error) {
	shown, err := stored.Record()
	if err != nil || shown == nil {
		return nil, err
	}
	p := callback.Params{URL: shown.URL}
	if stored.Sealed == nil {
		return &p, nil
	}
	plain, err := s.Vault.Open(ctx, at, stored.Sealed)
	if err != nil {
		return nil, err
	}
	var secrets callback.Secrets
	if json.Unmarshal(plain, &secrets) != nil {
		return nil, errors.New("decode the secrets of a callback: invalid JSON") // the decoder's error may contain a secret
	}
	p.Secret, p.Headers = secrets.Secret, secrets.Headers
	return &p, nil
}

// Record returns the callback as records show it, or nil without one.
func (stored StoredCallback) Record() (shown *api.RunCallback, err error) {
	if stored.Shown == nil {
		return nil, nil
	}
	if err := json.Unmarshal(stored.Shown, &shown); err != nil {
		return nil, fmt.Errorf("decode a callback: %w", err)
	}
	return shown, nil
}
