package signature_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/secret/signature"
)

func TestAU03OneFlippedBitIsRefused(t *testing.T) {
	public, private := keyPair(t)
	const flips = 10_000
	random := rand.New(rand.NewPCG(3, 3))
	message := signature.Message("POST", "/v1/sdk/components?a=1&b=2", "1795257600", []byte(`{"module":"HASH","input":{"data":"x"}}`))
	sig := signature.Sign(private, message)
	if !signature.Verify(public, message, sig) {
		t.Fatal("the untouched request is refused")
	}
	// The message is the concatenation of method, path, query, timestamp and body, so flips anywhere
	// in the message cover each of these parts. The signature is the last part.
	for range flips {
		m, s := bytes.Clone(message), bytes.Clone(sig)
		if at := random.IntN(len(m) + len(s)); at < len(m) {
			m[at] ^= 1 << random.IntN(8)
		} else {
			s[at-len(m)] ^= 1 << random.IntN(8)
		}
		if signature.Verify(public, m, s) {
			t.Fatalf("accepted %q with signature %x", m, s)
		}
	}
}

func TestAU07ASignatureHasOnlyOneSpelling(t *testing.T) {
	public, private := keyPair(t)
	message := signature.Message("GET", "/v1/sdk/components", "1795257600", nil)
	sig := signature.Sign(private, message)
	// The group order, little-endian: S + L is the same point but not canonical.
	order := []byte{0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 31: 0x10}
	malleable, carry := bytes.Clone(sig), 0
	for i := range order {
		carry += int(sig[32+i]) + int(order[i])
		malleable[32+i], carry = byte(carry), carry>>8
	}
	highBits := bytes.Repeat([]byte{0xff}, 64) // its base64 has + and / in every alphabet
	text := signature.Format(sig)
	cases := []struct {
		name, header string
		parses       bool
	}{
		{"right", text, true},
		{"empty", "", false},
		{"no padding", strings.TrimRight(text, "="), false},
		{"URL-safe alphabet", base64.URLEncoding.EncodeToString(highBits), false},
		{"blank before", " " + text, false},
		{"blank after", text + " ", false},
		{"line break inside", text[:40] + "\n" + text[40:], false},
		{"line break for a letter", text[:40] + "\n" + text[41:], false},
		{"63 bytes", base64.StdEncoding.EncodeToString(sig[:63]), false},
		{"65 bytes", base64.StdEncoding.EncodeToString(append(bytes.Clone(sig), 0)), false},
		{"spare bits set", text[:85] + string(text[85]+1) + "==", false},
		{"hex", strings.Repeat("ab", 44), false},
		{"all zero", base64.StdEncoding.EncodeToString(make([]byte, 64)), true},
		{"S not reduced", base64.StdEncoding.EncodeToString(malleable), true},
		{"S beyond the order", base64.StdEncoding.EncodeToString(append(bytes.Clone(sig[:32]), highBits[:32]...)), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := signature.ParseSignature(c.header)
			if (err == nil) != c.parses && c.name != "hex" {
				t.Fatalf("ParseSignature: %v, want it to parse: %v", err, c.parses)
			}
			if valid := err == nil && signature.Verify(public, message, got); valid != (c.name == "right") {
				t.Errorf("valid = %v", valid)
			}
		})
	}
}

func TestVerifyRejectsKeysOfAnotherLength(t *testing.T) {
	for _, size := range []int{0, 31, 33, 64} {
		if signature.Verify(make(ed25519.PublicKey, size), []byte("m"), make([]byte, 64)) {
			t.Errorf("a key of %d bytes verified", size)
		}
	}
}

func TestAU15SecretIsPKCS8WithTheSeedAtItsEnd(t *testing.T) {
	public, der, err := signature.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if seeded := ed25519.NewKeyFromSeed(der[len(der)-32:]); !seeded.Public().(ed25519.PublicKey).Equal(public) {
		t.Error("the last 32 bytes are not the seed")
	}
	private, err := signature.ParseSecret(signature.EncodeSecret(der))
	if err != nil {
		t.Fatal(err)
	}
	if !private.Public().(ed25519.PublicKey).Equal(public) {
		t.Error("the parsed secret belongs to another public key")
	}
	for _, bad := range []string{"", "not base64!", "AAAA", base64.StdEncoding.EncodeToString(der[:40])} {
		if _, err := signature.ParseSecret(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("ParseSecret(%q): %v", bad, err)
		}
	}
}

func TestSignableRejectsAmbiguousParts(t *testing.T) {
	cases := []struct {
		method, target, timestamp string
		want                      bool
	}{
		{"GET", "/v1/sdk/components?limit=1", "1795257600", true},
		{"GET|/x", "/v1", "1", false},
		{"get", "/v1", "1", false},
		{"", "/v1", "1", false},
		{"GET", "", "1", false},
		{"GET", "v1", "1", false},
		{"GET", "/v1|1", "1", false},
		{"GET", "/v1 ", "1", false},
		{"GET", "/é", "1", false},
		{"GET", "/\x00", "1", false},
		{"GET", "/v1", "", false},
		{"GET", "/v1", "1|{}", false},
		{"GET", "/v1", "-1", false},
		{"GET", "/v1", "+1", false},
	}
	for _, c := range cases {
		if got := signature.Signable(c.method, c.target, c.timestamp); got != c.want {
			t.Errorf("Signable(%q, %q, %q) = %v", c.method, c.target, c.timestamp, got)
		}
	}
}

func FuzzAU17DifferentRequestsHaveDifferentMessages(f *testing.F) {
	f.Add("GET", "/v1", "1", []byte(nil), "GET", "/v1", "1", []byte("{}"))
	f.Add("POST", "/v1", "12", []byte(`{"a":"|"}`), "POST", "/v1", "1", []byte(`2|{"a":"|"}`))
	f.Add("POST", "/v1|1", "2", []byte("x"), "POST", "/v1", "1", []byte("2|x"))
	f.Fuzz(func(t *testing.T, m1, t1, s1 string, b1 []byte, m2, t2, s2 string, b2 []byte) {
		first, second := signature.Message(m1, t1, s1, b1), signature.Message(m2, t2, s2, b2)
		if !signature.Signable(m1, t1, s1) || !signature.Signable(m2, t2, s2) {
			return
		}
		sameBody := bytes.Equal(b1, b2) || len(b1) == 0 && string(b2) == "{}" || len(b2) == 0 && string(b1) == "{}"
		same := m1 == m2 && t1 == t2 && s1 == s2 && sameBody
		if bytes.Equal(first, second) != same {
			t.Errorf("%q and %q: the messages are equal: %v", first, second, !same)
		}
	})
}

func FuzzAU17SignatureHeaderHasOneSpelling(f *testing.F) {
	f.Add(signature.Format(make([]byte, 64)))
	f.Add("AA==")
	f.Fuzz(func(t *testing.T, header string) {
		if sig, err := signature.ParseSignature(header); err == nil && signature.Format(sig) != header {
			t.Errorf("%q reads as %x, which is written %q", header, sig, signature.Format(sig))
		}
	})
}

func keyPair(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	return private.Public().(ed25519.PublicKey), private
}
