package utility

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"filippo.io/age"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

type generateAgeEncryption struct{}

func (generateAgeEncryption) Describe() component.Descriptor {
	return component.Descriptor{
		Module:      "GENERATE_AGE_ENCRYPTION",
		Title:       "Generate age encryption keys",
		Description: "Generates a pair of X25519 keys for age encryption (age-encryption.org): the recipient, to which anybody may encrypt, and the identity, which alone decrypts and must be kept secret.",
		Category:    category,
		Input:       json.RawMessage(emptySchema),
		Config:      json.RawMessage(emptySchema),
		Output: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "The pair of keys.",
			"required": ["ageIdentity", "ageRecipient"],
			"properties": {
				"ageIdentity": {"type": "string", "pattern": "^AGE-SECRET-KEY-1[0-9A-Z]{58}$", "x-secret": true, "title": "age identity", "description": "The private key. Whoever has it reads what is encrypted to the recipient.", "examples": ["AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU"]},
				"ageRecipient": {"type": "string", "pattern": "^age1[0-9a-z]{58}$", "title": "age recipient", "description": "The public key, to be given to those who encrypt.", "examples": ["age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"]}
			}
		}`),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
}

func (generateAgeEncryption) Run(context.Context, component.Call) (component.Result, error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return component.Result{}, fmt.Errorf("draw age identity: %w", err)
	}
	return component.Encode(map[string]string{"ageIdentity": identity.String(), "ageRecipient": identity.Recipient().String()})
}

// parseRecipient reads the public half of a pair. Its error does not quote it.
func parseRecipient(text string) (*age.X25519Recipient, error) {
	recipient, err := age.ParseX25519Recipient(text)
	if err != nil {
		return nil, errors.New("an X25519 recipient of age is needed: age1 and 58 more characters, the last of which are a checksum")
	}
	return recipient, nil
}

// parseIdentity reads the secret half of a pair. Its error does not quote it,
// as that of the library does in part.
func parseIdentity(text string) (*age.X25519Identity, error) {
	identity, err := age.ParseX25519Identity(text)
	if err != nil {
		return nil, errors.New("an X25519 identity of age is needed: AGE-SECRET-KEY-1 and 58 more characters, the last of which are a checksum")
	}
	return identity, nil
}
