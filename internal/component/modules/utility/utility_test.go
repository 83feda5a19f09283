package utility

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/kit/digest"
)

func member(t *testing.T, output json.RawMessage, name string) string {
	t.Helper()
	var members map[string]string
	if err := json.Unmarshal(output, &members); err != nil || len(members) != 1 {
		t.Fatalf("output %s: %v", output, err)
	}
	return members[name]
}

// gives runs a module and compares its complete output as JSON.
func gives(t *testing.T, bench *componenttest.Bench, module, input, want string) {
	t.Helper()
	output, failed := bench.Run(t, module, input, `{}`)
	if failed != nil {
		t.Errorf("%s of %.300s: %v", module, input, failed)
	} else if string(output) != want {
		t.Errorf("%s of %.300s\ngot  %.600s\nwant %.600s", module, input, output, want)
	}
}

// refuses fails the test unless the module fails permanently with a message that contains all of
// the words.
func refuses(t *testing.T, bench *componenttest.Bench, module, input string, words ...string) {
	t.Helper()
	output, failed := bench.Run(t, module, input, `{}`)
	if failed == nil || failed.Code != component.CodeInvalidInput || failed.Retryable {
		t.Errorf("%s of %.300s: got %.300s, %v", module, input, output, failed)
		return
	}
	for _, word := range words {
		if !strings.Contains(failed.Message, word) {
			t.Errorf("%s of %.300s: %q does not say %q", module, input, failed.Message, word)
		}
	}
}

// object returns a JSON object of names and string values.
func object(t testing.TB, pairs ...string) string {
	t.Helper()
	members := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		members[pairs[i]] = pairs[i+1]
	}
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bounded runs a call that is as expensive as the limits allow. The call must finish in a small
// part of the module's timeout.
func bounded(t *testing.T, bench *componenttest.Bench, module, input string) (json.RawMessage, *component.Error) {
	t.Helper()
	output, failed := bench.Run(t, module, input, `{}`)
	if failed != nil && failed.Code == component.CodeTimeout || bench.Registry.Stuck() != 0 {
		t.Errorf("%s of %.100s does not end: %v", module, input, failed)
	}
	return output, failed
}

// The format is defined in RFC 9562, section 5.4. The example in appendix A.3 matches it; the
// examples of other versions (A.1, A.5, A.6) don't.
func TestRandomUUIDIsVersion4(t *testing.T) {
	bench := componenttest.New(t, Modules()...)
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for example, want := range map[string]bool{
		"919108f7-52d1-4320-9bac-f847db4148a8": true, "c232ab00-9414-11ec-b3c8-9f6bdeced846": false, "1ec9414c-232a-6b00-b3c8-9f6bdeced846": false, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f": false,
	} {
		if form.MatchString(example) != want {
			t.Errorf("%s of RFC 9562 is version 4: %v", example, !want)
		}
	}
	seen := map[string]bool{}
	for range 100 {
		output, failed := bench.Run(t, "RANDOM_UUID", `{}`, `{}`)
		if failed != nil {
			t.Fatal(failed)
		}
		id := member(t, output, "uuid")
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("drew %q", id)
		}
		seen[id] = true
	}
}

func TestRandomHexReturnsTheRequestedBytes(t *testing.T) {
	bench := componenttest.New(t, Modules()...)
	for input, want := range map[string]int{
		`{}`: 32, `{"bytes":1}`: 1, `{"bytes":1024}`: 1024, `{"bytes":16.0}`: 16, `{"bytes":1e1}`: 10, `{"unknown":5}`: 32,
	} {
		output, failed := bench.Run(t, "RANDOM_HEX", input, `{}`)
		if failed != nil {
			t.Errorf("%s: %v", input, failed)
			continue
		}
		if text := member(t, output, "hex"); !strings.HasPrefix(text, "0x") || len(text) != 2+2*want {
			t.Errorf("%s gave %s", input, text)
		}
	}
	for _, input := range []string{`{"bytes":0}`, `{"bytes":1025}`, `{"bytes":-1}`, `{"bytes":1.5}`, `{"bytes":"32"}`, `{"bytes":null}`, `{"bytes":1e40}`} {
		if output, failed := bench.Run(t, "RANDOM_HEX", input, `{}`); failed == nil || failed.Code != component.CodeInvalidInput {
			t.Errorf("%s: got %s, %v", input, output, failed)
		}
	}
}

// The digests are from FIPS 180-4 (with NIST's example files), the Keccak team's test vectors,
// RFC 7693 and the RIPEMD-160 paper.
func TestHashPassesThePublishedVectors(t *testing.T) {
	bench := componenttest.New(t, Modules()...)
	const long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
	for _, c := range []struct{ algorithm, data, digest string }{
		{"sha256", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"sha256", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"sha256", long, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
		{"sha512", "abc", "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
		{"sha512", "", "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"},
		{"keccak256", "", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"},
		{"keccak256", "abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"},
		{"keccak256", "Transfer(address,address,uint256)", "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"},
		{"blake2b", "abc", "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"},
		{"ripemd160", "", "9c1185a5c5e9fc54612808977ee8f548b2258d31"},
		{"ripemd160", "abc", "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"},
		{"ripemd160", long, "12a053384a9c0c88e405a06c27dcf49ada62eb2b"},
	} {
		input, _ := json.Marshal(map[string]string{"algorithm": c.algorithm, "data": c.data})
		output, failed := bench.Run(t, "HASH", string(input), `{}`)
		if failed != nil {
			t.Errorf("%s of %q: %v", c.algorithm, c.data, failed)
		} else if got := member(t, output, "digest"); got != "0x"+c.digest {
			t.Errorf("%s of %q = %s, want 0x%s", c.algorithm, c.data, got, c.digest)
		}
	}
}

func TestHashAcceptsEveryEncoding(t *testing.T) {
	bench := componenttest.New(t, Modules()...)
	const hello = "0x2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	for _, input := range []string{
		`{"data":"hello"}`, `{"data":"hello","encoding":"utf8"}`, `{"data":"0x68656c6c6f","encoding":"hex"}`,
		`{"data":"68656C6C6F","encoding":"hex"}`, `{"data":"aGVsbG8=","encoding":"base64"}`,
	} {
		output, failed := bench.Run(t, "HASH", input, `{}`)
		if failed != nil {
			t.Errorf("%s: %v", input, failed)
		} else if got := member(t, output, "digest"); got != hello {
			t.Errorf("%s = %s", input, got)
		}
	}
	for _, input := range []string{
		`{}`, `{"data":1}`, `{"data":"x","algorithm":"md5"}`, `{"data":"x","encoding":"utf16"}`, `{"data":"0x0","encoding":"hex"}`,
		`{"data":"zz","encoding":"hex"}`, `{"data":"aGVsbG8","encoding":"base64"}`, `{"data":"aGVs\nbG8=","encoding":"base64"}`,
		`{"data":"aGVsbG9=","encoding":"base64"}`, `{"data":"a-_=","encoding":"base64"}`,
	} {
		output, failed := bench.Run(t, "HASH", input, `{}`)
		if failed == nil || failed.Code != component.CodeInvalidInput || failed.Retryable {
			t.Errorf("%s: got %s, %v", input, output, failed)
		}
	}
}

func TestDigestsOfTheTableAreTheirFunctions(t *testing.T) {
	data := []byte(strings.Repeat("a", 1_000_000))
	for algorithm, want := range map[string]string{
		"sha256": fmt.Sprintf("%x", sha256.Sum256(data)),
		"sha512": fmt.Sprintf("%x", sha512.Sum512(data)),
		// RIPEMD-160 paper: one million times "a".
		"ripemd160": "52783243c1697bdbe16d37f97f68f08325dc1528",
	} {
		if sum, known := digest.Hash(algorithm, data); !known || hex.EncodeToString(sum) != want {
			t.Errorf("%s = %x, %v", algorithm, sum, known)
		}
	}
}
