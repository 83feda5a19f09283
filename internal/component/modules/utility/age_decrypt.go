package utility

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

type ageDecrypt struct{}

func (ageDecrypt) Describe() component.Descriptor {
	return component.Descriptor{
		Module:      "AGE_DECRYPT",
		Title:       "Decrypt with age",
		Description: "Decrypts an age file (age-encryption.org/v1) that was encrypted to the X25519 recipient of an identity, by AGE_ENCRYPT or by any other tool for age. Nothing is given of a file that was altered.",
		Category:    category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What to decrypt, and with what.",
			"required": ["ciphertext", "ageIdentity"],
			"properties": {
				"ciphertext": {"type": "string", "minLength": 1, "title": "Ciphertext", "description": "The encrypted file: armored text, or the file in standard base64 with padding.", "examples": ["-----BEGIN AGE ENCRYPTED FILE-----\n..."]},
				"ageIdentity": {"type": "string", "format": "age-identity", "maxLength": 128, "x-secret": true, "title": "age identity", "description": "The private key, as GENERATE_AGE_ENCRYPTION and age-keygen give it. It is kept secret.", "examples": ["{{env.AGE_IDENTITY}}"]},
				"encoding": {"type": "string", "title": "Encoding", "description": "How the result is written: ` + writeWords + `", ` + writable + `, "default": "utf8", "examples": ["utf8"]}
			},
			"examples": [{"ciphertext": "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSA2aCsvaFYvSmJ3QjUrdUR4VTd2blRjdG1OMnYwSWVab0htakF4M2JCMXdnCjBvRkVGSGlqZ2I1NnFtZWhQcXF0NXZ5N0VQSG9zZklBRXRXQStyenFvUlEKLS0tIFljOGxJelphYnJnWHFuSTRtTmV6RjNqM0FaaUVLU3pwaTVxd2sxY3lVMncKMKTkKfmCnQsL1JJisA7PIhCwrREW4gAU7ky/CW6gN3aNUs9UtSR2osFwn1YIMg==", "ageIdentity": "AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU"}]
		}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What was encrypted.",
			"required": ["data"],
			"properties": {
				"data": {"type": "string", "x-secret": true, "title": "Data", "description": "The data, written as encoding says. It is kept secret.", "examples": ["attack at dawn"]}
			}
		}`),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
}

// Formats are the string formats of the schema.
func (ageDecrypt) Formats() map[string]func(string) error {
	return map[string]func(string) error{"age-identity": func(text string) error { _, err := parseIdentity(text); return err }}
}

func (ageDecrypt) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct{ Ciphertext, AgeIdentity, Encoding string }](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	identity, err := parseIdentity(input.AgeIdentity)
	if err != nil {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "ageIdentity: %s", err)
	}
	plain, err := openAge(input.Ciphertext, identity)
	if err != nil {
		return component.Result{}, err
	}
	data, err := encodeText("the decrypted bytes", plain, "encoding", cmp.Or(input.Encoding, "utf8"))
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]string{"data": data})
}

// openAge decrypts a file, armored or in base64. Errors are INVALID_INPUT,
// without what the library says, which may quote the file.
func openAge(ciphertext string, identity age.Identity) ([]byte, error) {
	var file io.Reader
	if strings.HasPrefix(strings.TrimSpace(ciphertext), armor.Header) {
		file = armor.NewReader(strings.NewReader(ciphertext))
	} else {
		raw, err := decodeText("ciphertext", ciphertext, "what does not begin with "+armor.Header, "base64")
		if err != nil {
			return nil, err
		}
		file = bytes.NewReader(raw)
	}
	var data []byte
	opened, err := age.Decrypt(file, identity)
	if err == nil {
		data, err = io.ReadAll(opened)
	}
	if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
		return nil, component.Permanent(component.CodeInvalidInput, "ageIdentity does not open ciphertext, which was encrypted to other recipients")
	}
	if err != nil {
		return nil, component.Permanent(component.CodeInvalidInput, "ciphertext must be an age file, armored or in base64, as it was encrypted: this one is cut off, altered or none")
	}
	return data, nil
}
