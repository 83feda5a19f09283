package utility

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/weft-automation/weft/internal/component"
)

type ageDecrypt struct{}

func (ageDecrypt) Describe() component.Descriptor {
	return component.Computation{
		Module:      "AGE_DECRYPT",
		Title:       "Decrypt with age",
		Description: "Decrypts an age file (age-encryption.org/v1) with an X25519 identity. The file can be from AGE_ENCRYPT or any other age tool. A modified file is rejected as a whole.",
		Category:    category,
		Input: `"description": "The encrypted file and the private key.", "required": ["ciphertext", "ageIdentity"], "properties": {
			"ciphertext": {"type": "string", "minLength": 1, "title": "Ciphertext", "description": "The encrypted file: armored text, or the file in standard base64 with padding.", "examples": ["-----BEGIN AGE ENCRYPTED FILE-----\n..."]},
			"ageIdentity": {"type": "string", "format": "age-identity", "maxLength": 128, "x-secret": true, "title": "age identity", "description": "The private key, as GENERATE_AGE_ENCRYPTION or age-keygen returns it. It is stored encrypted.", "examples": ["{{env.AGE_IDENTITY}}"]},
			"encoding": {"type": "string", "title": "Encoding", "description": "The encoding of the result: ` + writeWords + `", ` + writable + `, "default": "utf8", "examples": ["utf8"]}
		}, "examples": [{"ciphertext": "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSA2aCsvaFYvSmJ3QjUrdUR4VTd2blRjdG1OMnYwSWVab0htakF4M2JCMXdnCjBvRkVGSGlqZ2I1NnFtZWhQcXF0NXZ5N0VQSG9zZklBRXRXQStyenFvUlEKLS0tIFljOGxJelphYnJnWHFuSTRtTmV6RjNqM0FaaUVLU3pwaTVxd2sxY3lVMncKMKTkKfmCnQsL1JJisA7PIhCwrREW4gAU7ky/CW6gN3aNUs9UtSR2osFwn1YIMg==", "ageIdentity": "AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU"}]`,
		Output: `"description": "The decrypted data.", "required": ["data"], "properties": {
			"data": {"type": "string", "x-secret": true, "title": "Data", "description": "The decrypted data, in the given encoding. It is stored encrypted.", "examples": ["attack at dawn"]}
		}`,
	}.Descriptor()
}

// Formats returns the string formats of the schema.
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

// openAge decrypts a file, armored or in base64. Its INVALID_INPUT errors don't include the
// library's errors, which may quote the file.
func openAge(ciphertext string, identity age.Identity) ([]byte, error) {
	var file io.Reader
	if strings.HasPrefix(strings.TrimSpace(ciphertext), armor.Header) {
		file = armor.NewReader(strings.NewReader(ciphertext))
	} else {
		raw, err := decodeText("ciphertext", ciphertext, "a file that doesn't start with "+armor.Header, "base64")
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
		return nil, component.Permanent(component.CodeInvalidInput, "ageIdentity can't decrypt ciphertext, which was encrypted for other recipients")
	}
	if err != nil {
		return nil, component.Permanent(component.CodeInvalidInput, "ciphertext must be an age file, armored or in base64; this one is truncated, modified or not an age file")
	}
	return data, nil
}
