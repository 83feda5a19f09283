package utility

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

func TestDecodePassesThePublishedVectors(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, decode{})
	for _, c := range published {
		if c.encoding == "plainHex" {
			c.encoding = "hex"
		}
		gives(t, bench, "DECODE", object(t, "data", c.text, "from", c.encoding, "to", "hex"), object(t, "result", c.hex))
	}
	gives(t, bench, "DECODE", `{"data":"Zm9vYmFy","from":"base64"}`, `{"result":"foobar"}`)
	gives(t, bench, "DECODE", `{"data":"666F6F626172","from":"hex"}`, `{"result":"foobar"}`)
	gives(t, bench, "DECODE", `{"data":"A-z_4ME=","from":"base64url","to":"base64"}`, `{"result":"A+z/4ME="}`)
	// The header of RFC 7515, appendix A.1.
	gives(t, bench, "DECODE", `{"data":"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9","from":"base64url"}`, `{"result":"{\"typ\":\"JWT\",\r\n \"alg\":\"HS256\"}"}`)
}

func TestDecodeErrorNamesField(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, decode{})
	refuses(t, bench, "DECODE", `{"from":"hex"}`, "/input/data", "is required")
	refuses(t, bench, "DECODE", `{"data":"00"}`, "/input/from", "is required")
	refuses(t, bench, "DECODE", `{"data":null,"from":"hex"}`, "/input/data", "must be a string", "null")
	refuses(t, bench, "DECODE", `{"data":"00","from":"octal"}`, "/input/from", "must be one of", `"octal"`)
	refuses(t, bench, "DECODE", `{"data":"00","from":"hex","to":7}`, "/input/to", "must be a string", "number")
	for _, c := range []struct{ from, data, expected, came string }{
		{"hex", "0x123", "pairs of hexadecimal digits", "length 5"},
		{"hex", "0xzz", "pairs of hexadecimal digits", "position 3"},
		{"hex", "00 11", "pairs of hexadecimal digits", "position 3"},
		{"hex", "0X00", "pairs of hexadecimal digits", "position 2"},
		{"base64", "Zg", "with padding", "length 2"},
		{"base64", "Zh==", "with padding", "length 4"}, // non-zero trailing bits
		{"base64", "Zm9v\nZm9v", "without line breaks", "position 5"},
		{"base64", "A-z_4ME=", "with padding", "position 2"},
		{"base64url", "A+z/4ME", "URL-safe", "position 2"},
		{"base64url", "Zg=", "URL-safe", "length 3"},
		{"base64url", "Zh", "URL-safe", "length 2"},
		{"base58", "10O", "Bitcoin alphabet", "position 2"},
		{"base58", "2l", "Bitcoin alphabet", "position 2"},
		{"base58", "+2g", "Bitcoin alphabet", "position 1"},
		{"base58", "2\u00e9", "Bitcoin alphabet", "position 2"},
		{"base58", strings.Repeat("z", 5700), "at most 4096 bytes", "length 5700"},
		{"base58", strings.Repeat("z", 1_000_000), "at most 4096 bytes", "length 1000000"},
	} {
		refuses(t, bench, "DECODE", object(t, "data", c.data, "from", c.from), "data must be ", c.expected, "because from is "+c.from, c.came)
	}
	refuses(t, bench, "DECODE", `{"data":"/w==","from":"base64"}`, "to requests", "not valid UTF-8", "hex or base64")
	refuses(t, bench, "DECODE", `{"data":"AA==","from":"base64"}`, "to requests", "U+0000")
}

func TestDecodeErrorQuotesNothing(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, decode{})
	for _, from := range []string{"hex", "base64", "base64url", "base58"} {
		_, failed := bench.Run(t, "DECODE", object(t, "data", "canary!canary!", "from", from), `{}`)
		if failed == nil || strings.Contains(failed.Error(), "canary") {
			t.Errorf("%s: %v", from, failed)
		}
	}
}

func TestDecodeIsBounded(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, decode{})
	for _, from := range []string{"hex", "base64", "base64url", "base58"} {
		if _, failed := bounded(t, bench, "DECODE", object(t, "data", strings.Repeat("A", 1_000_000), "from", from)); failed == nil || failed.Code != component.CodeInvalidInput {
			t.Errorf("%s: %v", from, failed) // not UTF-8, or not base58
		}
	}
}

// Except for the case of hex and the padding of base64url, each byte sequence has exactly one
// string in an encoding.
func FuzzDecode(f *testing.F) {
	for _, c := range published {
		f.Add(c.text, c.encoding)
	}
	f.Add("0x68656C", "hex")
	f.Add("Zg==", "base64url")
	f.Add("", "base32")
	f.Fuzz(func(t *testing.T, text, name string) {
		data, err := decodeText("data", text, "from", name)
		if err != nil {
			return
		}
		if len(data) > len(text) {
			t.Fatalf("%d characters became %d bytes", len(text), len(data))
		}
		back := string(data)
		switch name {
		case "hex":
			back, text = hex.EncodeToString(data), strings.ToLower(strings.TrimPrefix(text, "0x"))
		case "base64url":
			text = strings.TrimRight(text, "=")
			fallthrough
		case "base64", "base58":
			if back, err = encodeText("data", data, "to", name); err != nil {
				t.Fatal(err)
			}
		}
		if back != text {
			t.Errorf("%q in %s comes back as %q", text, name, back)
		}
	})
}
