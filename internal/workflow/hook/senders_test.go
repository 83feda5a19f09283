package hook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os/exec"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/waittest"
)

// The libraries that senders publish sign what their presets verify: a form and JSON with characters
// that a wrong encoding would change.
func TestSignaturesOfTheSendersLibrariesAreVerified(t *testing.T) {
	t.Parallel()
	key := "whsec_" + base64.StdEncoding.EncodeToString([]byte(secret))
	payload := `{"zen":"café 🙂","n":1.0}`
	for name, body := range map[string]string{"JSON": payload, "a form": url.Values{"payload": {payload}}.Encode()} {
		in, err := json.Marshal(map[string]string{"secret": secret, "key": key, "body": body})
		if err != nil {
			t.Fatal(err)
		}
		node := exec.CommandContext(waittest.Context(t), "node", "testdata/senders.mjs")
		var complaint bytes.Buffer
		node.Stdin, node.Stderr = bytes.NewReader(in), &complaint
		out, err := node.Output()
		if err != nil {
			t.Fatalf("node: %v\n%s", err, complaint.String())
		}
		var signed map[api.VerificationPreset]map[string]string
		if err := json.Unmarshal(out, &signed); err != nil || len(signed) != 2 {
			t.Fatalf("%v: %s", err, out)
		}
		for preset, headers := range signed {
			header := http.Header{}
			for one, value := range headers {
				header.Set(one, value)
			}
			known := secrets{current: map[bool]string{true: key, false: secret}[preset == api.VerificationPresetStandardWebhooks]}
			v, _, err := check(&api.NewVerification{Preset: &preset, Secret: &known.current}, secrets{}, "")
			if err != nil {
				t.Fatal(err)
			}
			if reason := verify(v, known, header, []byte(body), time.Now()); reason != "" {
				t.Errorf("%s, %s: %s", preset, name, reason)
			}
			if reason := verify(v, known, header, []byte(body+" "), time.Now()); reason != invalidSignature {
				t.Errorf("%s, %s, another body: %q", preset, name, reason)
			}
		}
	}
}
