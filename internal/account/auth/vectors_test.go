package auth_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/weft-automation/weft/conformance/signers"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// kit holds the published vectors.
type kit struct {
	APISecret string
	Requests  []struct{ Name, Method, Path, Timestamp, Body, Signature string }

	RefusedSignatures []struct{ Name, Request, Signature, Reason string }
	RefusedMessages   []struct{ Name, Request, Message, Signature, Reason string }

	Window []struct {
		Name, Timestamp, Reason string
		ServerTime              int64
		Accepted                bool
	}
}

func published(t *testing.T) kit {
	t.Helper()
	var k kit
	if err := json.Unmarshal(signers.Vectors, &k); err != nil {
		t.Fatal(err)
	}
	if len(k.Requests) < 30 || len(k.RefusedSignatures) < 5 || len(k.RefusedMessages) < 5 || len(k.Window) < 5 {
		t.Fatal("vectors.json is incomplete")
	}
	return k
}

// send returns a request of the vectors with the given signature.
func (b *bundle) send(k kit, name, sig string) auth.Request {
	for _, r := range k.Requests {
		if r.Name == name {
			at, _ := strconv.ParseInt(r.Timestamp, 10, 64)
			b.clock = time.Unix(at, 0)
			return auth.Request{Method: r.Method, Target: r.Path, Body: []byte(r.Body), Client: home, Header: http.Header{
				"X-Api-Key": {b.key.APIKey}, "X-Sdk-Timestamp": {r.Timestamp}, "X-Sdk-Signature": {sig},
			}}
		}
	}
	return auth.Request{}
}

func TestThePublishedVectorsGetTheirExpectedResult(t *testing.T) {
	b, k := setup(t, auth.Options{}), published(t)
	b.useVectorKey(t, k.APISecret)
	for _, r := range k.Requests {
		if got := verify(t, b.verifier, b.send(k, r.Name, r.Signature)); got != "" {
			t.Errorf("%s: %s", r.Name, got)
		}
	}
	for _, r := range k.RefusedSignatures {
		if got := verify(t, b.verifier, b.send(k, r.Request, r.Signature)); got != r.Reason {
			t.Errorf("%s: %q, want %s", r.Name, got, r.Reason)
		}
	}
	for _, r := range k.RefusedMessages {
		if got := verify(t, b.verifier, b.send(k, r.Request, r.Signature)); got != r.Reason {
			t.Errorf("%s: %q, want %s", r.Name, got, r.Reason)
		}
	}
	private, err := signature.ParseSecret(k.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range k.Window {
		b.clock = time.Unix(w.ServerTime, 0)
		sig := signature.Sign(private, signature.Message("GET", "/v1/sdk/components", w.Timestamp, nil))
		got := verify(t, b.verifier, auth.Request{Method: "GET", Target: "/v1/sdk/components", Client: home, Header: http.Header{
			"X-Api-Key": {b.key.APIKey}, "X-Sdk-Timestamp": {w.Timestamp}, "X-Sdk-Signature": {signature.Format(sig)},
		}})
		if got != w.Reason || w.Accepted != (got == "") {
			t.Errorf("%s: %q, want %q", w.Name, got, w.Reason)
		}
	}
}
