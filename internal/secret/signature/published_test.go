package signature_test

import (
	"encoding/json"
	"testing"

	kits "github.com/weft-automation/weft/conformance/signers"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// The published vectors are valid for the body as sent. Vectors that are rejected for the body as
// sent are also rejected for its compact form.
func TestAU01ThePublishedVectorsHold(t *testing.T) {
	var kit struct {
		APISecret         string
		Requests          []struct{ Name, Method, Path, Timestamp, Body, Signature string }
		RefusedSignatures []struct{ Name, Request, Signature string }
		RefusedMessages   []struct{ Name, Request, Signature string }
	}
	if err := json.Unmarshal(kits.Vectors, &kit); err != nil {
		t.Fatal(err)
	}
	public := publicKey(t, given{APISecret: kit.APISecret})
	good := func(name, text string) bool {
		sig, err := signature.ParseSignature(text)
		for _, r := range kit.Requests {
			if r.Name != name {
				continue
			}
			asSent := signature.Message(r.Method, r.Path, r.Timestamp, []byte(r.Body))
			compact := signature.Message(r.Method, r.Path, r.Timestamp, strictjson.Compact([]byte(r.Body)))
			return err == nil && signature.Signable(r.Method, r.Path, r.Timestamp) &&
				(signature.Verify(public, asSent, sig) || signature.Verify(public, compact, sig))
		}
		t.Errorf("the request %q is missing", name)
		return false
	}
	for _, r := range kit.Requests {
		if !good(r.Name, r.Signature) {
			t.Errorf("%s is refused", r.Name)
		}
	}
	for _, r := range append(kit.RefusedSignatures, kit.RefusedMessages...) {
		if good(r.Request, r.Signature) {
			t.Errorf("%s is accepted", r.Name)
		}
	}
	if len(kit.Requests) < 30 || len(kit.RefusedSignatures) < 5 || len(kit.RefusedMessages) < 5 {
		t.Error("vectors.json is incomplete")
	}
}
