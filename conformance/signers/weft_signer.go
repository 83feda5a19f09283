package signers

// This file stands alone: copy it, and rename the package as you like.

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Signer signs requests with an API key. It is safe for concurrent use.
type Signer struct {
	apiKey string
	secret ed25519.PrivateKey
}

// NewSigner returns a Signer for an API key (ws_...) and its apiSecret, an Ed25519 private key
// in base64 of its PKCS#8 form. Its errors never contain the secret.
func NewSigner(apiKey, apiSecret string) (*Signer, error) {
	der, err := base64.StdEncoding.DecodeString(apiSecret)
	if err != nil {
		return nil, errors.New("the apiSecret is not base64")
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("the apiSecret is not a PKCS#8 key")
	}
	secret, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("the apiSecret is not an Ed25519 key")
	}
	return &Signer{apiKey, secret}, nil
}

// Message returns the bytes to sign. path is everything after the host as Weft receives it,
// including the query. timestamp is in whole seconds. An empty body is signed as {}.
func Message(method, path, timestamp string, body []byte) []byte {
	if len(body) == 0 {
		body = []byte("{}")
	}
	return append([]byte(method+"|"+path+"|"+timestamp+"|"), body...)
}

// Signature returns the value of X-Sdk-Signature.
func (s *Signer) Signature(method, path, timestamp string, body []byte) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(s.secret, Message(method, path, timestamp, body)))
}

// Request returns a signed request, which must be sent within 30 seconds. body is sent unchanged. baseURL
// may have a path, such as https://example.com/weft, if a proxy removes that path before the
// request reaches Weft. It is sent, but not signed.
func (s *Signer) Request(ctx context.Context, method, baseURL, path string, body []byte) (*http.Request, error) {
	base, err := url.Parse(strings.TrimSuffix(baseURL, "/"))
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, base.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	// RequestURI is the path and query that net/http sends.
	received := strings.TrimPrefix(request.URL.RequestURI(), base.EscapedPath())
	request.Header.Set("X-Sdk-Signature", s.Signature(method, received, timestamp, body))
	request.Header.Set("X-Sdk-Timestamp", timestamp)
	request.Header.Set("X-Api-Key", s.apiKey)
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}
