package utility

import (
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/componenttest"
)

// RFC 4231, section 4 (the cases without truncation), and RFC 2202, section 3, for SHA-1.
func TestHMACPassesThePublishedVectors(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, hmac{})
	const (
		hiThere = "4869205468657265"
		nothing = "7768617420646f2079612077616e7420666f72206e6f7468696e673f"
		larger  = "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a65204b6579202d2048617368204b6579204669727374"
	)
	long := "54686973206973206120746573742075" + "73696e672061206c6172676572207468" + "616e20626c6f636b2d73697a65206b65" + "7920616e642061206c61726765722074" +
		"68616e20626c6f636b2d73697a652064" + "6174612e20546865206b6579206e6565" + "647320746f2062652068617368656420" + "6265666f7265206265696e6720757365" + "642062792074686520484d414320616c" + "676f726974686d2e"
	for _, c := range []struct{ algorithm, key, data, mac string }{
		{"sha256", strings.Repeat("0b", 20), hiThere, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
		{"sha384", strings.Repeat("0b", 20), hiThere, "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6"},
		{"sha512", strings.Repeat("0b", 20), hiThere, "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854"},
		{"sha256", "4a656665", nothing, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
		{"sha384", "4a656665", nothing, "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649"},
		{"sha512", "4a656665", nothing, "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"},
		{"sha256", strings.Repeat("aa", 20), strings.Repeat("dd", 50), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
		{"sha512", strings.Repeat("aa", 20), strings.Repeat("dd", 50), "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb"},
		{"sha256", "0102030405060708090a0b0c0d0e0f10111213141516171819", strings.Repeat("cd", 50), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
		{"sha256", strings.Repeat("aa", 131), larger, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
		{"sha384", strings.Repeat("aa", 131), larger, "4ece084485813e9088d2c63a041bc5b44f9ef1012a2b588f3cd11f05033ac4c60c2ef6ab4030fe8296248df163f44952"},
		{"sha512", strings.Repeat("aa", 131), larger, "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598"},
		{"sha256", strings.Repeat("aa", 131), long, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
		{"sha1", strings.Repeat("0b", 20), hiThere, "b617318655057264e28bc0b6fb378c8ef146be00"},
		{"sha1", "4a656665", nothing, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"},
	} {
		gives(t, bench, "HMAC", object(t, "algorithm", c.algorithm, "key", c.key, "keyEncoding", "hex", "data", c.data, "encoding", "hex"), object(t, "mac", "0x"+c.mac))
	}
	gives(t, bench, "HMAC", `{"key":"Jefe","data":"what do ya want for nothing?"}`, `{"mac":"0x5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"}`)
}

// RFC 7515, appendix A.1: key and code in URL-safe base64.
const (
	jwtKey   = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
	jwtInput = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
	jwtMAC   = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

func TestHMACEncodesTheCode(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, hmac{})
	for form, mac := range map[string]string{
		"base64url": jwtMAC,
		"base64":    "dBjftJeZ4CVP+mB92K27uhbUJU1p1r/wW1gFWFOEjXk=",
		"hex":       "0x7418dfb49799e0254ffa607dd8adbbba16d4254d69d6bff05b58055853848d79",
		"plainHex":  "7418dfb49799e0254ffa607dd8adbbba16d4254d69d6bff05b58055853848d79",
	} {
		gives(t, bench, "HMAC", object(t, "key", jwtKey, "keyEncoding", "base64url", "data", jwtInput, "macEncoding", form), object(t, "mac", mac))
	}
}

func TestHMACComparesTheExpectedCode(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, hmac{})
	const code = "7418dfb49799e0254ffa607dd8adbbba16d4254d69d6bff05b58055853848d79"
	for _, c := range []struct {
		form, expected string
		valid          bool
	}{
		{"base64url", jwtMAC, true},
		{"base64url", jwtMAC + "=", true},
		{"hex", "0x" + code, true},
		{"hex", code, true},
		{"plainHex", strings.ToUpper(code), true},
		{"plainHex", "0x" + code, true},
		{"base64url", "e" + jwtMAC[1:], false},
		{"base64url", jwtMAC[:42], false},
		{"base64url", "", false},
		{"base64url", "not a code", false},
		{"hex", code[2:], false},
		{"hex", code + "00", false},
		{"base64", jwtMAC, false},
	} {
		input := object(t, "key", jwtKey, "keyEncoding", "base64url", "data", jwtInput, "macEncoding", c.form, "expected", c.expected)
		output, failed := bench.Run(t, "HMAC", input, `{}`)
		if failed != nil || strings.Contains(string(output), `"valid":true`) != c.valid || !strings.Contains(string(output), `"valid":`) {
			t.Errorf("%s %q: %s, %v", c.form, c.expected, output, failed)
		}
	}
}

func TestHMACErrorNamesFieldAndHidesKey(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, hmac{})
	for _, c := range []struct {
		input string
		words []string
	}{
		{`{"data":"a"}`, []string{"/input/key", "is required"}},
		{`{"key":"canary-canary"}`, []string{"/input/data", "is required"}},
		{`{"key":"","data":"a"}`, []string{"/input/key", "at least 1 character"}},
		{`{"key":"0x","keyEncoding":"hex","data":"a"}`, []string{"key", "at least 1 byte", "none"}},
		{`{"key":["canary-canary"],"data":"a"}`, []string{"/input/key", "must be a string", "array"}},
		{`{"key":"canary-canary","keyEncoding":"hex","data":"a"}`, []string{"key must be pairs of hexadecimal digits", "keyEncoding is hex", "position 3"}},
		{`{"key":"canary-canary","keyEncoding":"morse","data":"a"}`, []string{"/input/keyEncoding", "must be one of", `"morse"`}},
		{`{"key":"canary-canary","data":"a","encoding":"hex"}`, []string{"data must be pairs of hexadecimal digits", "encoding is hex", "length 1"}},
		{`{"key":"canary-canary","data":7}`, []string{"/input/data", "must be a string"}},
		{`{"key":"canary-canary","data":"a","encoding":"rot13"}`, []string{"/input/encoding", "must be one of"}},
		{`{"key":"canary-canary","data":"a","algorithm":"md5"}`, []string{"/input/algorithm", "must be one of", `"sha256"`, `"md5"`}},
		{`{"key":"canary-canary","data":"a","macEncoding":"utf8"}`, []string{"/input/macEncoding", "must be one of", `"utf8"`}},
		{`{"key":"canary-canary","data":"a","expected":1}`, []string{"/input/expected", "must be a string"}},
	} {
		refuses(t, bench, "HMAC", c.input, c.words...)
		if _, failed := bench.Run(t, "HMAC", c.input, `{}`); failed == nil || strings.Contains(failed.Error(), "canary") {
			t.Errorf("%s: %v", c.input, failed)
		}
	}
}
