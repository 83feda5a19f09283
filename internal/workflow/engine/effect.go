package engine

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// effectKey returns the key under which an execution does what it does outside, such as the
// Idempotency-Key of API_CALL. It depends on the first run of those that repeat each other, on
// the component, the iteration, the input and the config. So a rerun that repeats a stage with
// the same input and config sends the same key, and with another input another one.
func (f *fold) effectKey(t *stage, input, config json.RawMessage) (uuid.UUID, error) {
	var parts [2]any
	for i, text := range []json.RawMessage{input, config} {
		var err error
		if parts[i], err = valueOf(text); err != nil {
			return uuid.Nil, err
		}
	}
	return f.effectID(t, parts[:]...)
}

// valueOf returns what a text means, whatever the order of its fields and its white space.
func valueOf(text json.RawMessage) (value any, err error) {
	if value, err = strictjson.Decode(text); err != nil {
		return nil, errors.New("read the input of a stage: not JSON") // what is wrong may show some of it
	}
	return value, nil
}

// sameValue reports whether two texts mean the same.
func sameValue(a, b json.RawMessage) (bool, error) {
	first, err := valueOf(a)
	if err != nil {
		return false, err
	}
	second, err := valueOf(b)
	return reflect.DeepEqual(first, second), err
}

// effectID derives an id for the place of a stage in the first run.
func (f *fold) effectID(t *stage, parts ...any) (uuid.UUID, error) {
	root := f.run.ID
	if f.run.EffectRootID != nil {
		root = *f.run.EffectRootID
	}
	text, err := strictjson.Encode(append([]any{t.component.ID, t.iteration}, parts...))
	if err != nil {
		return uuid.Nil, fmt.Errorf("write the place of a stage: %w", err)
	}
	return uuid.NewHash(sha256.New(), root, text, 8), nil
}
