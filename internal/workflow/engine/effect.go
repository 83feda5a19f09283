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

// effectKey returns the key that an execution sends with its external effects, such as the
// Idempotency-Key of API_CALL. It is derived from the first run in a series of reruns, the
// component, the iteration, the input and the config. A rerun of a stage with the same input and
// config sends the same key.
func (a *Advance) effectKey(t *Stage, input, config json.RawMessage) (uuid.UUID, error) {
	var parts [2]any
	for i, text := range []json.RawMessage{input, config} {
		var err error
		if parts[i], err = valueOf(text); err != nil {
			return uuid.Nil, err
		}
	}
	return a.EffectID(t, parts[:]...)
}

// valueOf decodes JSON, so that values can be compared regardless of white space and the order of
// fields.
func valueOf(text json.RawMessage) (value any, err error) {
	if value, err = strictjson.Decode(text); err != nil {
		return nil, errors.New("decode the input or config of a stage: invalid JSON") // the decoder's error may contain a secret
	}
	return value, nil
}

// SameValue reports whether two JSON texts have the same value.
func SameValue(a, b json.RawMessage) (bool, error) {
	first, err := valueOf(a)
	if err != nil {
		return false, err
	}
	second, err := valueOf(b)
	return reflect.DeepEqual(first, second), err
}

// EffectID derives a UUID from the first run in a series of reruns, the component and iteration of
// the stage, and parts.
func (a *Advance) EffectID(t *Stage, parts ...any) (uuid.UUID, error) {
	text, err := strictjson.Encode(append([]any{t.Component.ID, t.Iteration}, parts...))
	if err != nil {
		return uuid.Nil, fmt.Errorf("encode the place of a stage: %w", err)
	}
	return uuid.NewHash(sha256.New(), a.Run.EffectRoot, text, 8), nil
}
