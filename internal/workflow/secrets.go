package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// placeholder replaces secret values in a definition.
const placeholder = component.Redacted

// secrets maps places to secret values. A place is the ID of a component and a JSON pointer into
// the component, such as "call/input/headers/Authorization".
type secrets map[string]json.RawMessage

// place is a place in a definition whose value may be secret.
type place struct {
	pointer, name string
	component     int    // index of the component
	field         string // name of the innermost field that contains the place
}

// inside returns the place of a field or an item inside p.
func (p place) inside(token string) place {
	p.field = token
	token = "/" + fault.EscapeToken(token)
	p.pointer, p.name = p.pointer+token, p.name+token
	return p
}

// eachSecret calls visit for every value in a definition that a schema marks as secret, and
// replaces the value with the result.
func (s *Service) eachSecret(d *definition, visit func(place, any) any) error {
	for i := range d.Components {
		c := &d.Components[i]
		entry, ok := s.modules.Lookup(c.Module)
		if !ok {
			continue
		}
		at := place{pointer: fmt.Sprintf("/components/%d", i), name: c.ID, component: i}
		for _, part := range []struct {
			name  string
			raw   *json.RawMessage
			paths []string
		}{{"input", &c.Input, entry.SecretPaths.Input}, {"config", &c.Config, entry.SecretPaths.Config}} {
			if len(part.paths) == 0 {
				continue
			}
			value, err := strictjson.Decode(*part.raw)
			if err != nil {
				return fmt.Errorf("decode the %s of a component: %w", part.name, err)
			}
			changed := false
			for _, path := range part.paths {
				value = walk(value, strings.Split(path, "/")[1:], at.inside(part.name), func(at place, v any) any {
					now := visit(at, v)
					text, isText := now.(string)
					before, wasText := v.(string)
					changed = changed || isText != wasText || isText && text != before
					return now
				})
			}
			if !changed {
				continue
			}
			raw, err := strictjson.EncodeLike(value, *part.raw)
			if err != nil {
				return fmt.Errorf("encode the %s of a component: %w", part.name, err)
			}
			*part.raw = raw
		}
	}
	return nil
}

// walk calls visit for the values at a path, and replaces each value with the result. In a path,
// `*` stands for every field or item.
func walk(value any, path []string, at place, visit func(place, any) any) any {
	if len(path) == 0 {
		return visit(at, value)
	}
	name := fault.UnescapeToken(path[0])
	switch outer := value.(type) {
	case map[string]any:
		for _, member := range slices.Sorted(maps.Keys(outer)) {
			if path[0] == "*" || member == name {
				outer[member] = walk(outer[member], path[1:], at.inside(member), visit)
			}
		}
	case []any:
		for i := range outer {
			if path[0] == "*" {
				outer[i] = walk(outer[i], path[1:], at.inside(strconv.Itoa(i)), visit)
			}
		}
	}
	return value
}

// restore replaces placeholders in a definition with the values of the earlier version, and
// returns their places. details reports the placeholders that have no earlier value.
func (s *Service) restore(d *definition, earlierFunc func() (secrets, error)) (kept []place, details []fault.Detail, err error) {
	earlier := once(earlierFunc)
	failed := s.eachSecret(d, func(at place, value any) any {
		if value != placeholder {
			return value
		}
		known, unread := earlier()
		if err = errors.Join(err, unread); unread != nil {
			return value
		}
		stored, ok := known[at.name]
		if !ok {
			details = append(details, fault.NewDetail(at.pointer, "is [redacted], but no secret is stored for this place: send the value, or a variable such as {{env.NAME}}"))
			return value
		}
		kept = append(kept, at)
		return stored
	})
	return kept, details, errors.Join(err, failed)
}

// once returns a function that calls read on its own first call, and returns the same result on
// every call. If read is nil, the function returns no secrets.
func once(read func() (secrets, error)) func() (secrets, error) {
	var (
		done  bool
		known secrets
		err   error
	)
	return func() (secrets, error) {
		if !done && read != nil {
			known, err = read()
		}
		done = true
		return known, err
	}
}

// extract replaces the secret values in a definition with placeholders and returns the values. It
// does not replace a string that consists only of references to variables, because references are
// not secret.
func (s *Service) extract(d *definition) (extracted secrets, err error) {
	failed := s.eachSecret(d, func(at place, value any) any {
		switch text, isText := value.(string); {
		case value == nil, isText && (text == "" || envref.Alone(text)):
			return value
		}
		raw, unwritten := strictjson.Encode(value)
		if unwritten != nil {
			err = errors.New("encode a secret") // the encoder's error may contain the secret
			return value
		}
		if extracted == nil {
			extracted = secrets{}
		}
		extracted[at.name] = raw
		return placeholder
	})
	return extracted, errors.Join(err, failed)
}

// SealedAt returns the place that the sealed secrets of a workflow are bound to.
func SealedAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "workflow_secrets", Row: id.String(), Field: "sealed"}
}

// sealTx seals and stores the secrets of a version.
func (s *Service) sealTx(ctx context.Context, tx pgx.Tx, v version, what secrets) error {
	if len(what) == 0 {
		return nil
	}
	id, err := uuid7.New()
	if err != nil {
		return fmt.Errorf("make secrets id: %w", err)
	}
	plain, err := strictjson.Encode(what)
	if err != nil {
		return errors.New("encode the secrets of a workflow")
	}
	sealed, err := s.keyring.Seal(plain, SealedAt(v.workspaceID, id))
	if err != nil {
		return fmt.Errorf("seal the secrets of a workflow: %w", err)
	}
	err = db.New().WorkflowSecretsInsert(ctx, tx, db.WorkflowSecretsInsertParams{
		WorkspaceID: v.workspaceID, ID: id, WorkflowID: v.workflowID, Version: v.number, Sealed: sealed,
	})
	if err != nil {
		return fmt.Errorf("insert the secrets of a workflow: %w", err)
	}
	return nil
}

// readSecrets returns the secrets of a version, or nil if it has no secrets.
func (s *Service) readSecrets(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, number int32) (secrets, error) {
	row, err := db.New().WorkflowSecretsGet(ctx, conn, db.WorkflowSecretsGetParams{WorkspaceID: workspaceID, WorkflowID: workflowID, Version: number})
	if postgres.NotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the secrets of a workflow: %w", err)
	}
	plain, err := s.keyring.Open(row.Sealed, SealedAt(workspaceID, row.ID))
	if err != nil {
		return nil, fmt.Errorf("decrypt the secrets of a workflow: %w", err)
	}
	var known secrets
	if json.Unmarshal(plain, &known) != nil {
		return nil, errors.New("decode the secrets of a workflow")
	}
	return known, nil
}
