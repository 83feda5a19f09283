package utility

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/weft-automation/weft/internal/component"
)

// maxRecipients is the maximum number of additional recipients.
const maxRecipients = 20

type ageEncrypt struct{}

func (ageEncrypt) Describe() component.Descriptor {
	return component.Computation{
		Module:      "AGE_ENCRYPT",
		Title:       "Encrypt with age",
		Description: "Encrypts data for one or more X25519 recipients in the age format (age-encryption.org/v1). Each recipient can decrypt it with AGE_DECRYPT or any other age tool.",
		Category:    category,
		Input: `"description": "The data and its recipients.", "required": ["data", "ageRecipient"], "properties": {
			"data": {"type": "string", "maxLength": 65536, "x-secret": true, "title": "Data", "description": "The data to encrypt, in the given encoding. It can be empty. It is stored encrypted.", "examples": ["attack at dawn"]},
			"encoding": {"type": "string", "title": "Encoding", "description": "The encoding of data: ` + readWords + `", ` + readable + `, "default": "utf8", "examples": ["utf8"]},
			"ageRecipient": {"type": "string", "format": "age-recipient", "maxLength": 128, "title": "age recipient", "description": "The recipient's public key, as GENERATE_AGE_ENCRYPTION or age-keygen returns it.", "examples": ["age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"]},
			"additionalRecipients": {"type": "array", "maxItems": 20, "items": {"type": "string", "format": "age-recipient", "maxLength": 128}, "title": "Additional recipients", "description": "The public keys of further recipients.", "default": [], "examples": [["age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"]]},
			"format": {"type": "string", "title": "Format", "description": "The format of the encrypted file: armor is PEM-style text, base64 is the binary file in standard Base64 with padding.", "enum": ["armor", "base64"], "default": "armor", "examples": ["armor"]}
		}, "examples": [{"data": "attack at dawn", "ageRecipient": "age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"}, {"data": "0x00ff10", "encoding": "hex", "ageRecipient": "age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm", "additionalRecipients": ["age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"], "format": "base64"}]`,
		Output: `"description": "The encrypted file.", "required": ["ciphertext"], "properties": {
			"ciphertext": {"type": "string", "minLength": 1, "title": "Ciphertext", "description": "The encrypted file, in the given format.", "examples": ["-----BEGIN AGE ENCRYPTED FILE-----\n..."]}
		}`,
	}.Descriptor()
}

// Formats returns the string formats of the schema.
func (ageEncrypt) Formats() map[string]func(string) error {
	return map[string]func(string) error{"age-recipient": func(text string) error { _, err := parseRecipient(text); return err }}
}

func (ageEncrypt) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Data, Encoding, AgeRecipient, Format string
		AdditionalRecipients                 []string
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	data, err := decodeText("data", input.Data, "encoding", input.Encoding)
	if err != nil {
		return component.Result{}, err
	}
	if len(input.AdditionalRecipients) > maxRecipients {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "additionalRecipients must have at most %d items, got %d", maxRecipients, len(input.AdditionalRecipients))
	}
	first, err := parseRecipient(input.AgeRecipient)
	if err != nil {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "ageRecipient: %s", err)
	}
	recipients := []age.Recipient{first}
	for i, text := range input.AdditionalRecipients {
		recipient, err := parseRecipient(text)
		if err != nil {
			return component.Result{}, component.Permanent(component.CodeInvalidInput, "additionalRecipients/%d: %s", i, err)
		}
		recipients = append(recipients, recipient)
	}
	file, err := sealAge(data, recipients, input.Format != "base64")
	if err != nil {
		return component.Result{}, err
	}
	ciphertext := string(file)
	if input.Format == "base64" {
		ciphertext = base64.StdEncoding.EncodeToString(file)
	}
	return component.Encode(map[string]string{"ciphertext": ciphertext})
}

// sealAge returns the encrypted file, armored or binary.
func sealAge(data []byte, recipients []age.Recipient, armored bool) ([]byte, error) {
	var file bytes.Buffer
	closers := []io.Closer{}
	var out io.Writer = &file
	if armored {
		shell := armor.NewWriter(out)
		out, closers = shell, append(closers, shell)
	}
	body, err := age.Encrypt(out, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if _, err := body.Write(data); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	for _, closer := range append([]io.Closer{body}, closers...) { // the inner writer first
		if err := closer.Close(); err != nil {
			return nil, fmt.Errorf("encrypt: %w", err)
		}
	}
	return file.Bytes(), nil
}
