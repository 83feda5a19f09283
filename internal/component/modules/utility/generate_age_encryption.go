package utility

import (
	"context"
	"errors"
	"fmt"

	"filippo.io/age"

	"github.com/weft-automation/weft/internal/component"
)

type generateAgeEncryption struct{}

func (generateAgeEncryption) Describe() component.Descriptor {
	return component.Computation{
		Module:      "GENERATE_AGE_ENCRYPTION",
		Title:       "Generate age encryption keys",
		Description: "Generates an X25519 key pair for age encryption (age-encryption.org): the recipient is the public key for encryption, the identity is the private key for decryption.",
		Category:    category,
		Output: `"description": "The key pair.", "required": ["ageIdentity", "ageRecipient"], "properties": {
			"ageIdentity": {"type": "string", "pattern": "^AGE-SECRET-KEY-1[0-9A-Z]{58}$", "x-secret": true, "title": "age identity", "description": "The private key. Anyone who has it can decrypt data for the recipient.", "examples": ["AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU"]},
			"ageRecipient": {"type": "string", "pattern": "^age1[0-9a-z]{58}$", "title": "age recipient", "description": "The public key. Share it with those who encrypt data for you.", "examples": ["age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"]}
		}`,
	}.Descriptor()
}

func (generateAgeEncryption) Run(context.Context, component.Call) (component.Result, error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return component.Result{}, fmt.Errorf("generate age identity: %w", err)
	}
	return component.Encode(map[string]string{"ageIdentity": identity.String(), "ageRecipient": identity.Recipient().String()})
}

// parseRecipient parses a public key. Errors don't quote it.
func parseRecipient(text string) (*age.X25519Recipient, error) {
	recipient, err := age.ParseX25519Recipient(text)
	if err != nil {
		return nil, errors.New("expected an age X25519 recipient: age1 and 58 more characters, including a checksum")
	}
	return recipient, nil
}

// parseIdentity parses a private key. Errors don't quote it, unlike the library's.
func parseIdentity(text string) (*age.X25519Identity, error) {
	identity, err := age.ParseX25519Identity(text)
	if err != nil {
		return nil, errors.New("expected an age X25519 identity: AGE-SECRET-KEY-1 and 58 more characters, including a checksum")
	}
	return identity, nil
}
