package signers_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/weft-automation/weft/conformance/signers"
)

var update = flag.Bool("update", false, "write vectors.json")

func hexOf(data []byte) string { return hex.EncodeToString(data) }

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// unreduced returns a signature with the order of the curve added to S: the same scalar in a
// non-canonical encoding.
func unreduced(sig []byte) []byte {
	order := []byte{0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 31: 0x10}
	other, carry := slices.Clone(sig), 0
	for i := range order {
		carry += int(sig[32+i]) + int(order[i])
		other[32+i], carry = byte(carry), carry>>8
	}
	return other
}

// vectors is vectors.json.
type vectors struct {
	Description string `json:"description"`

	APISecret string `json:"apiSecret"`
	PublicKey string `json:"publicKey"`

	Requests          []request `json:"requests"`
	RefusedSignatures []refused `json:"refusedSignatures"`
	RefusedMessages   []misled  `json:"refusedMessages"`
	Window            []moment  `json:"window"`
}

type request struct {
	Name          string `json:"name"`
	Why           string `json:"why"`
	Method        string `json:"method"`
	Path          string `json:"path"`
	Timestamp     string `json:"timestamp"`
	Body          string `json:"body"`
	BodyBase64    string `json:"bodyBase64"`
	MessageBase64 string `json:"messageBase64"`
	MessageSha256 string `json:"messageSha256"`
	Signature     string `json:"signature"`
}

type refused struct {
	Name      string `json:"name"`
	Request   string `json:"request"`
	Signature string `json:"signature"`
	Reason    string `json:"reason"`
}

type misled struct {
	Name      string `json:"name"`
	Request   string `json:"request"`
	Message   string `json:"message"`
	Signature string `json:"signature"`
	Reason    string `json:"reason"`
}

type moment struct {
	Name       string  `json:"name"`
	ServerTime int64   `json:"serverTime"`
	Timestamp  string  `json:"timestamp"`
	Accepted   bool    `json:"accepted"`
	Reason     *string `json:"reason"`
}

const description = "Test vectors for signers of requests to Weft. apiSecret is of no workspace. Each of requests is signed over " +
	"METHOD|PATH|TIMESTAMP|BODY with Ed25519 (RFC 8032), which is deterministic: a right signer gives the very signature. bodyBase64 has the " +
	"bytes of body; an empty one is signed as {}. refusedSignatures and refusedMessages are refused with 401 and the reason, those of " +
	"refusedMessages because another message was signed. window: serverTime is the server's clock, in seconds; accepted says whether a right " +
	"signature over that timestamp is. Vectors may be added."

// made returns the vectors that are generated from the table.
func made() vectors {
	private := ed25519.NewKeyFromSeed(seed[:])
	public, _ := private.Public().(ed25519.PublicKey)
	pkcs8 := append([]byte{0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20}, seed[:]...)
	v := vectors{Description: description, APISecret: base64Of(pkcs8), PublicKey: base64Of(public)}
	for _, r := range requests {
		timestamp := strconv.FormatInt(max(r.timestamp, 0), 10)
		if r.timestamp == 0 {
			timestamp = second(0)
		}
		signed := r.body
		if signed == "" {
			signed = "{}"
		}
		message := []byte(r.method + "|" + r.path + "|" + timestamp + "|" + signed)
		sum := sha256.Sum256(message)
		v.Requests = append(v.Requests, request{
			Name: r.name, Why: r.why, Method: r.method, Path: r.path, Timestamp: timestamp,
			Body: r.body, BodyBase64: base64Of([]byte(r.body)), MessageBase64: base64Of(message), MessageSha256: hexOf(sum[:]),
			Signature: base64Of(ed25519.Sign(private, message)),
		})
	}
	for _, a := range altered {
		text := v.Requests[0].Signature
		sig, _ := base64.StdEncoding.DecodeString(text)
		v.RefusedSignatures = append(v.RefusedSignatures, refused{a.name, v.Requests[0].Name, a.change(sig, text), a.reason})
	}
	for _, m := range misread {
		v.RefusedMessages = append(v.RefusedMessages, misled{m.name, m.request, m.message, base64Of(ed25519.Sign(private, []byte(m.message))), "invalid_credentials"})
	}
	for _, w := range window {
		at := moment{Name: w.name, ServerTime: epoch, Timestamp: w.timestamp, Accepted: w.reason == ""}
		if !at.Accepted {
			at.Reason = new(w.reason)
		}
		v.Window = append(v.Window, at)
	}
	return v
}

func TestVectorsAreThoseOfTheTable(t *testing.T) {
	var now bytes.Buffer
	encoder := json.NewEncoder(&now)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(made()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("vectors.json", now.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(now.Bytes(), signers.Vectors) {
		t.Error("vectors.json is not what the table gives: go test ./conformance/signers -run Table -update")
	}
}

// vectors.json would still be fresh after a case was removed from the table.
func TestVectorsCoverWhatSignersGetWrong(t *testing.T) {
	v := made()
	names := map[string]bool{}
	var beyond, escaped, floats, empty, queries int
	for _, r := range v.Requests {
		if names[r.Name] {
			t.Errorf("%q is there twice", r.Name)
		}
		names[r.Name] = true
		count(&beyond, bytes.ContainsFunc([]byte(r.Body), func(r rune) bool { return r > '~' }))
		count(&escaped, bytes.Contains([]byte(r.Body), []byte(`\`)))
		count(&floats, bytes.Contains([]byte(r.Body), []byte(`1.0`)) || bytes.Contains([]byte(r.Body), []byte(`1e3`)))
		count(&empty, r.Body == "")
		count(&queries, bytes.ContainsRune([]byte(r.Path), '?'))
	}
	if beyond < 5 || escaped < 6 || floats < 2 || empty < 4 || queries < 8 {
		t.Errorf("letters beyond ASCII %d, escapes %d, floats %d, empty bodies %d, queries %d", beyond, escaped, floats, empty, queries)
	}
	for _, m := range v.RefusedMessages {
		if !names[m.Request] {
			t.Errorf("%s: there is no request %q", m.Name, m.Request)
		}
	}
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}
