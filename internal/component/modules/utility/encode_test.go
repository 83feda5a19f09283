package utility

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/kit/encoding"
)

// published are test vectors from the documents that define the encodings.
var published = []struct{ encoding, hex, text string }{
	// RFC 4648, section 10.
	{"base64", "0x", ""},
	{"base64", "0x66", "Zg=="},
	{"base64", "0x666f", "Zm8="},
	{"base64", "0x666f6f", "Zm9v"},
	{"base64", "0x666f6f62", "Zm9vYg=="},
	{"base64", "0x666f6f6261", "Zm9vYmE="},
	{"base64", "0x666f6f626172", "Zm9vYmFy"},
	{"plainHex", "0x666f6f626172", "666f6f626172"},
	// RFC 4648, section 9.
	{"base64", "0x14fb9c03d97e", "FPucA9l+"},
	{"base64", "0x14fb9c03d9", "FPucA9k="},
	{"base64", "0x14fb9c03", "FPucAw=="},
	// RFC 7515, appendix C: URL-safe, without padding.
	{"base64url", "0x03ecffe0c1", "A-z_4ME"},
	// Bitcoin Core, src/test/data/base58_encode_decode.json.
	{"base58", "0x", ""},
	{"base58", "0x61", "2g"},
	{"base58", "0x626262", "a3gV"},
	{"base58", "0x636363", "aPEr"},
	{"base58", "0x73696d706c792061206c6f6e6720737472696e67", "2cFupjhnEsSn59qHXstmK2ffpLv2"},
	{"base58", "0x00eb15231dfceb60925886b67d065299925915aeb172c06647", "1NS17iag9jJgTHD1VXjvLCEnZuQ3rJDE9L"},
	{"base58", "0x516b6fcd0f", "ABnLTmg"},
	{"base58", "0xbf4f89001e670274dd", "3SEo3LWLoPntC"},
	{"base58", "0x572e4794", "3EFU7m"},
	{"base58", "0xecac89cad93923c02321", "EJDM8drfXA6uyA"},
	{"base58", "0x10c8511e", "Rt5zm"},
	{"base58", "0x00000000000000000000", "1111111111"},
	// RFC 3629, section 7.
	{"utf8", "0x41e289a2ce912e", "A\u2262\u0391."},
	{"utf8", "0xe697a5e69cace8aa9e", "\u65e5\u672c\u8a9e"},
	{"utf8", "0xefbbbff0a38eb4", "\ufeff\U000233b4"},
}

func TestEncodePassesThePublishedVectors(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, encode{})
	for _, c := range published {
		gives(t, bench, "ENCODE", object(t, "data", c.hex, "from", "hex", "to", c.encoding), object(t, "result", c.text))
	}
	gives(t, bench, "ENCODE", `{"data":"foobar","to":"base64"}`, `{"result":"Zm9vYmFy"}`)
	gives(t, bench, "ENCODE", `{"data":"Zm9vYmFy","from":"base64","to":"hex"}`, `{"result":"0x666f6f626172"}`)
}

func TestEncodeErrorNamesField(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, encode{})
	refuses(t, bench, "ENCODE", `{"to":"hex"}`, "/input/data", "is required")
	refuses(t, bench, "ENCODE", `{"data":"a"}`, "/input/to", "is required")
	refuses(t, bench, "ENCODE", `{"data":5,"to":"hex"}`, "/input/data", "must be a string", "number")
	refuses(t, bench, "ENCODE", `{"data":"a","to":"base32"}`, "/input/to", "must be one of", `"base64url"`, `"base32"`)
	refuses(t, bench, "ENCODE", `{"data":"a","from":"plainHex","to":"hex"}`, "/input/from", "must be one of", `"plainHex"`)
	refuses(t, bench, "ENCODE", `{"data":"0xff","from":"hex","to":"utf8"}`, "utf8", "to requests", "not valid UTF-8")
	refuses(t, bench, "ENCODE", `{"data":"0x6100","from":"hex","to":"utf8"}`, "to requests", "U+0000")
	refuses(t, bench, "ENCODE", object(t, "data", strings.Repeat("a", encoding.MaxBase58+1), "to", "base58"), "base58", "4096 bytes")
}

// Encoding is fast for any input: base58, which takes quadratic time, has a maximum length.
func TestEncodeIsBounded(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, encode{})
	for _, to := range []string{"hex", "base64", "base64url", "base58", "utf8"} {
		output, failed := bounded(t, bench, "ENCODE", object(t, "data", strings.Repeat("z", 1_000_000), "to", to))
		want := map[string]string{"hex": component.CodeOutputTooLarge, "base64": component.CodeOutputTooLarge, "base64url": component.CodeOutputTooLarge, "base58": component.CodeInvalidInput}[to]
		if (failed == nil) != (want == "") || failed != nil && failed.Code != want {
			t.Errorf("%s: %d bytes, %v", to, len(output), failed)
		}
	}
	gives(t, bench, "ENCODE", object(t, "data", strings.Repeat("00", encoding.MaxBase58), "from", "hex", "to", "base58"), object(t, "result", strings.Repeat("1", encoding.MaxBase58)))
	if output, failed := bounded(t, bench, "ENCODE", object(t, "data", strings.Repeat("ff", encoding.MaxBase58), "from", "hex", "to", "base58")); failed != nil {
		t.Errorf("%d bytes, %v", len(output), failed)
	}
}

// Decoding an encoded string returns the original bytes.
func FuzzEncode(f *testing.F) {
	for _, c := range published {
		f.Add([]byte(c.text), c.encoding)
	}
	f.Add([]byte{0, 0, 255}, "base58")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		text, err := encodeText("data", data, "to", name)
		if err != nil {
			return
		}
		if name == "plainHex" {
			name = "hex"
		}
		if back, err := decodeText("data", text, "from", name); err != nil || !bytes.Equal(back, data) {
			t.Errorf("%x in %s is %q, which reads as %x, %v", data, name, text, back, err)
		}
	})
}
