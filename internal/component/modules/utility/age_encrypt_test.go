package utility

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

const (
	// From the documentation of package age.
	knownIdentity  = "AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU"
	knownRecipient = "age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"
)

func TestAgeEncryptOutputIsDecryptedByEachRecipient(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, Modules()...)
	second := generatePair(t, bench)
	for _, format := range []string{"armor", "base64"} {
		for _, c := range []struct{ data, encoding string }{
			{"", "utf8"}, {"attack at dawn \u00e9", "utf8"}, {"0x00ff10", "hex"}, {"AP8Q", "base64"}, {strings.Repeat("x", 65536), "utf8"},
		} {
			input, _ := json.Marshal(map[string]any{"data": c.data, "encoding": c.encoding, "ageRecipient": knownRecipient, "additionalRecipients": []string{second.AgeRecipient}, "format": format})
			output, failed := bench.Run(t, "AGE_ENCRYPT", string(input), `{}`)
			if failed != nil {
				t.Fatal(failed)
			}
			ciphertext := member(t, output, "ciphertext")
			if strings.HasPrefix(ciphertext, "-----BEGIN AGE ENCRYPTED FILE-----\n") != (format == "armor") || c.data != "" && strings.Contains(ciphertext, c.data) {
				t.Errorf("%s: %.80q", format, ciphertext)
			}
			for _, identity := range []string{knownIdentity, second.AgeIdentity} {
				gives(t, bench, "AGE_DECRYPT", object(t, "ciphertext", ciphertext, "ageIdentity", identity, "encoding", c.encoding), object(t, "data", c.data))
			}
		}
	}
}

func TestAgeEncryptOutputIsUnique(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, ageEncrypt{})
	seen := map[string]bool{}
	for range 10 {
		output, failed := bench.Run(t, "AGE_ENCRYPT", object(t, "data", "same", "ageRecipient", knownRecipient), `{}`)
		if failed != nil || seen[string(output)] {
			t.Fatalf("%s, %v", output, failed)
		}
		seen[string(output)] = true
	}
}

// A secret of many words. An error must not contain any of these words.
func TestAgeEncryptIsBounded(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, ageEncrypt{})
	random := rand.New(rand.NewPCG(4, 2029))
	var words strings.Builder
	for words.Len() < 65536-9 {
		fmt.Fprintf(&words, "%08x ", random.Uint32())
	}
	input := object(t, "data", words.String(), "encoding", "hex", "ageRecipient", knownRecipient)
	if _, failed := bounded(t, bench, "AGE_ENCRYPT", input); failed == nil || failed.Code != component.CodeInvalidInput || !strings.Contains(failed.Message, "position 9") {
		t.Errorf("%v", failed)
	}
}

func TestAgeEncryptErrorNamesFieldAndHidesData(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, ageEncrypt{})
	tail := `,"ageRecipient":"` + knownRecipient + `"}`
	for _, c := range []struct {
		input string
		words []string
	}{
		{`{"ageRecipient":"` + knownRecipient + `"}`, []string{"/input/data", "is required"}},
		{`{"data":"canary-canary"}`, []string{"/input/ageRecipient", "is required"}},
		{`{"data":{"a":"canary-canary"}` + tail, []string{"/input/data", "must be a string", "object"}},
		{`{"data":"canary-canary","encoding":"hex"` + tail, []string{"data must be pairs of hexadecimal digits", "position 3"}},
		{`{"data":"canary-canary","encoding":"gzip"` + tail, []string{"/input/encoding", "must be one of", `"gzip"`}},
		{`{"data":"` + strings.Repeat("canary", 11000) + `"` + tail, []string{"/input/data", "at most 65536 characters"}},
		{`{"data":"canary-canary","format":"pem"` + tail, []string{"/input/format", "must be one of", `"armor"`, `"pem"`}},
		{`{"data":"canary-canary","ageRecipient":"` + knownRecipient[:61] + `q"}`, []string{"/input/ageRecipient", "age1 and 58 more characters", "checksum"}},
		{`{"data":"canary-canary","ageRecipient":"` + knownIdentity + `"}`, []string{"/input/ageRecipient", "age1"}},
		{`{"data":"canary-canary","ageRecipient":"ssh-ed25519 AAAA"}`, []string{"/input/ageRecipient", "age1"}},
		{`{"data":"canary-canary","additionalRecipients":"age1"` + tail, []string{"/input/additionalRecipients", "must be an array", "string"}},
		{`{"data":"canary-canary","additionalRecipients":["` + knownRecipient + `","age1"]` + tail, []string{"/input/additionalRecipients/1", "age1"}},
		{`{"data":"canary-canary","additionalRecipients":["` + strings.Repeat(knownRecipient+`","`, 20) + knownRecipient + `"]` + tail, []string{"/input/additionalRecipients", "at most 20 items", "got 21"}},
	} {
		refuses(t, bench, "AGE_ENCRYPT", c.input, c.words...)
		if _, failed := bench.Run(t, "AGE_ENCRYPT", c.input, `{}`); failed == nil || strings.Contains(failed.Error(), "canary") || strings.Contains(failed.Error(), knownIdentity[20:]) {
			t.Errorf("%.200s: %v", c.input, failed)
		}
	}
}
