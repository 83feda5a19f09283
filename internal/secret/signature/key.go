package signature

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
)

// GenerateKey generates a key pair. The private key is returned as PKCS#8 DER, whose last 32 bytes are
// the seed (contract 2.6). Encoded in base64, it is an apiSecret.
func GenerateKey() (public ed25519.PublicKey, pkcs8 []byte, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate Ed25519 key: %w", err)
	}
	pkcs8, err = x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode private key: %w", err)
	}
	return public, pkcs8, nil
}

// EncodeSecret returns the apiSecret for a private key: the standard base64 of its PKCS#8 DER.
func EncodeSecret(pkcs8 []byte) string {
	return base64.StdEncoding.EncodeToString(pkcs8)
}

// ParseSecret parses an apiSecret. Its errors never contain the secret.
func ParseSecret(apiSecret string) (ed25519.PrivateKey, error) {
	der, err := base64.StdEncoding.DecodeString(apiSecret)
	if err != nil {
		return nil, errors.New("apiSecret is not base64")
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("apiSecret is not a PKCS#8 private key in DER")
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("apiSecret is not an Ed25519 key")
	}
	return private, nil
}
