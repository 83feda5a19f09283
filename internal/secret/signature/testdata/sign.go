// This program signs requests.json with Go's standard library, without the package under test. Run it
// with: go run sign.go > vectors-go.json
package main

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
)

func main() {
	text, err := os.ReadFile("requests.json")
	if err != nil {
		panic(err)
	}
	var given struct {
		APISecret string
		Requests  []struct{ Name, Method, Target, Timestamp, SignedBody string }
		Callbacks []struct {
			Name, Secret, ID, Body string
			Timestamp              int64
		}
	}
	if err := json.Unmarshal(text, &given); err != nil {
		panic(err)
	}
	der, err := base64.StdEncoding.DecodeString(given.APISecret)
	if err != nil {
		panic(err)
	}
	private := ed25519.NewKeyFromSeed(der[len(der)-32:])

	var requests, callbacks []map[string]string
	for _, r := range given.Requests {
		message := strings.Join([]string{r.Method, r.Target, r.Timestamp, r.SignedBody}, "|")
		sig := ed25519.Sign(private, []byte(message))
		requests = append(requests, map[string]string{"name": r.Name, "signature": base64.StdEncoding.EncodeToString(sig)})
	}
	for _, c := range given.Callbacks {
		key := []byte(c.Secret)
		if encoded, ok := strings.CutPrefix(c.Secret, "whsec_"); ok {
			key, _ = base64.StdEncoding.DecodeString(encoded)
		}
		callbacks = append(callbacks, map[string]string{
			"name":            c.Name,
			"callbackV1":      "hmac-sha256-v1=" + hex.EncodeToString(digest([]byte(c.Secret), c.Body)),
			"standardWebhook": "v1," + base64.StdEncoding.EncodeToString(digest(key, fmt.Sprintf("%s.%d.%s", c.ID, c.Timestamp, c.Body))),
		})
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	err = encoder.Encode(map[string]any{
		"signer":    runtime.Version() + ", standard library",
		"command":   "go run sign.go > vectors-go.json",
		"requests":  requests,
		"callbacks": callbacks,
	})
	if err != nil {
		panic(err)
	}
}

func digest(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
