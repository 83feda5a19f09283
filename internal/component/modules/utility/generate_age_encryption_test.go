package utility

import (
	"encoding/json"
	"testing"

	"github.com/weft-automation/weft/internal/component/componenttest"
)

type agePair struct{ AgeIdentity, AgeRecipient string }

func generatePair(t testing.TB, bench *componenttest.Bench) (pair agePair) {
	t.Helper()
	output, failed := bench.Run(t, "GENERATE_AGE_ENCRYPTION", `{}`, `{}`)
	if failed != nil {
		t.Fatal(failed)
	}
	if err := json.Unmarshal(output, &pair); err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestGenerateAgeEncryptionReturnsMatchingPair(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, Modules()...)
	seen := map[string]bool{}
	for range 20 {
		pair := generatePair(t, bench)
		identity, err := parseIdentity(pair.AgeIdentity)
		if err != nil || identity.Recipient().String() != pair.AgeRecipient || seen[pair.AgeIdentity] {
			t.Fatalf("drew a pair with the recipient %s, %v", pair.AgeRecipient, err)
		}
		seen[pair.AgeIdentity] = true
	}
}

func TestGenerateAgeEncryptionKeepsTheIdentitySecret(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, generateAgeEncryption{})
	entry, _ := bench.Registry.Lookup("GENERATE_AGE_ENCRYPTION")
	if got := entry.SecretPaths.Output; len(got) != 1 || got[0] != "/ageIdentity" {
		t.Errorf("secret outputs %v", got)
	}
}

// The pair is from the documentation of package age.
func FuzzParseIdentity(f *testing.F) {
	f.Add("AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU")
	f.Add("age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm")
	f.Fuzz(func(t *testing.T, text string) {
		if identity, err := parseIdentity(text); err == nil && identity.String() != text {
			t.Errorf("%q comes back as %q", text, identity)
		}
		if recipient, err := parseRecipient(text); err == nil && recipient.String() != text {
			t.Errorf("%q comes back as %q", text, recipient)
		}
	})
}
