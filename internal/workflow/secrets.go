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
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// mark stands in a definition where a secret value was given.
const mark = component.Redacted

// secrets are values by their place: the id of a component and a JSON pointer into it,
// "call/input/headers/Authorization".
type secrets map[string]json.RawMessage

// place is where a secret value may stand.
type place struct {
	pointer, name string
	component     int    // its place among the components
	member        string // the name of the member that it is or stands in
}

func (p place) inside(token string) place {
	p.member = token
	token = "/" + fault.EscapeToken(token)
	p.pointer, p.name = p.pointer+token, p.name+token
	return p
}

// eachSecret goes to every value of a definition that stands where a schema has a
// secret; what visit gives takes its place.
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
				return fmt.Errorf("read the %s of a component: %w", part.name, err)
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
			raw, err := strictjson.Encode(value)
			if err != nil {
				return fmt.Errorf("write the %s of a component: %w", part.name, err)
			}
			*part.raw = raw
		}
	}
	return nil
}

// walk visits what a path leads to, `*` being every member or item.
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

// restore puts earlier values where a definition has the mark of one, and returns these
// places. details reports the marks without a value.
func (s *Service) restore(d *definition, earlierFunc func() (secrets, error)) (kept []place, details []fault.Detail, err error) {
	earlier := once(earlierFunc)
	failed := s.eachSecret(d, func(at place, value any) any {
		if value != mark {
			return value
		}
		known, unread := earlier()
		if err = errors.Join(err, unread); unread != nil {
			return value
		}
		stored, ok := known[at.name]
		if !ok {
			details = append(details, fault.NewDetail(at.pointer, "the mark of a secret stands here, and there is none: give the value, or a variable as {{env.NAME}}"))
			return value
		}
		kept = append(kept, at)
		return stored
	})
	return kept, details, errors.Join(err, failed)
}

// once asks once.
func once(ask func() (secrets, error)) func() (secrets, error) {
	var (
		asked bool
		known secrets
		err   error
	)
	return func() (secrets, error) {
		if !asked && ask != nil {
			known, err = ask()
		}
		asked = true
		return known, err
	}
}

// takeOut leaves marks in the place of secret values and gives those. A text that only
// names variables is none: the secret is the variable's.
func (s *Service) takeOut(d *definition) (taken secrets, err error) {
	failed := s.eachSecret(d, func(at place, value any) any {
		switch text, isText := value.(string); {
		case value == nil, isText && (text == "" || envref.Alone(text)):
			return value
		}
		raw, unwritten := strictjson.Encode(value)
		if unwritten != nil {
			err = errors.New("write a secret") // what is wrong may show some of it
			return value
		}
		if taken == nil {
			taken = secrets{}
		}
		taken[at.name] = raw
		return mark
	})
	return taken, errors.Join(err, failed)
}

// SealedAt names the place of sealed secrets.
func SealedAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "workflow_secrets", Row: id.String(), Field: "sealed"}
}

// sealTx keeps the secrets of a version.
func (s *Service) sealTx(ctx context.Context, tx pgx.Tx, v version, what secrets) error {
	if len(what) == 0 {
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make the id of secrets: %w", err)
	}
	plain, err := strictjson.Encode(what)
	if err != nil {
		return errors.New("write the secrets of a workflow")
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

// unsealed is the secrets of a version, none if it has none.
func (s *Service) unsealed(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID, number int32) (secrets, error) {
	row, err := db.New().WorkflowSecretsGet(ctx, conn, db.WorkflowSecretsGetParams{WorkspaceID: workspaceID, WorkflowID: workflowID, Version: number})
	if postgres.NotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the secrets of a workflow: %w", err)
	}
	plain, err := s.keyring.Open(row.Sealed, SealedAt(workspaceID, row.ID))
	if err != nil {
		return nil, fmt.Errorf("open the secrets of a workflow: %w", err)
	}
	var known secrets
	if json.Unmarshal(plain, &known) != nil {
		return nil, errors.New("read the secrets of a workflow")
	}
	return known, nil
}
