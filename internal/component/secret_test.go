package component

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

const secretSchema = `{"type":"object","properties":{
	"token":{"type":"string","x-secret":true},
	"node":{"type":"string","x-secret":true},
	"pin":{"type":"integer","x-secret":true},
	"headers":{"type":"object","additionalProperties":{"type":"string","x-secret":true}},
	"keys":{"type":"array","items":{"type":"object","properties":{"private":{"x-secret":true},"label":{"type":"string"}}}},
	"open":{"type":"string"}}}`

func secretive(t *testing.T, run func(context.Context, Call) (Result, error)) *Registry {
	t.Helper()
	r, err := NewRegistry(scripted{Descriptor: descriptor(func(d *Descriptor) { d.Input = json.RawMessage(secretSchema) }), run: run})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSecretPathsComeFromTheSchema(t *testing.T) {
	entry, _ := secretive(t, nil).Lookup("PROBE")
	if got := strings.Join(entry.SecretPaths.Input, " "); got != "/headers/* /keys/*/private /node /pin /token" {
		t.Errorf("got %s", got)
	}
}

func TestMT08InputsAreRedactedByPath(t *testing.T) {
	entry, _ := secretive(t, nil).Lookup("PROBE")
	got := entry.RedactInput(json.RawMessage(`{"token":"t","pin":12345678901234567890,"headers":{"A":"x","B":["y"]},
		"keys":[{"private":{"deep":"z"},"label":"l"},7],"open":"o"}`))
	want := `{"headers":{"A":"[redacted]","B":"[redacted]"},"keys":[{"label":"l","private":"[redacted]"},7],"open":"o","pin":"[redacted]","token":"[redacted]"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := entry.RedactInput(json.RawMessage(`{"token":`)); string(got) != `"[redacted]"` {
		t.Errorf("broken JSON became %s", got)
	}
}

// TestMT08ErrorTextsNeverHoldASecret puts random secrets at random paths, echoes them in many
// forms, and lets modules fail in every way.
func TestMT08ErrorTextsNeverHoldASecret(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const alphabet = `abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_ "\/&=%+<>é~`
	letters := []rune(alphabet)
	for range 300 {
		secret := make([]rune, minSecret+random.IntN(40))
		for i := range secret {
			secret[i] = letters[random.IntN(len(letters))]
		}
		text := string(secret)
		quoted, _ := json.Marshal(text)
		inputs := []any{
			map[string]any{"token": text}, map[string]any{"headers": map[string]any{"X-Key": text}},
			map[string]any{"keys": []any{map[string]any{"private": map[string]any{"deep": []any{text}}}}},
		}
		input, _ := json.Marshal(inputs[random.IntN(len(inputs))])
		echo := fmt.Sprintf("upstream said <%s> %s %q %s %s", text, quoted, text, url.QueryEscape(text), url.PathEscape(text))
		fail := []func() error{
			func() error { return Permanent("ODD", "%s", echo).With(map[string]any{echo: []any{echo}}) },
			func() error { return &Error{Code: "ODD", Message: "m", Err: errors.New(echo)} },
			func() error { return errors.New(echo) },
			func() error { panic(echo) },
		}[random.IntN(4)]
		r := secretive(t, func(context.Context, Call) (Result, error) { return Result{}, fail() })
		_, err := r.Run(t.Context(), "PROBE", Call{Input: input})
		e := errorOf(t, err)
		everything := fmt.Sprintf("%s %s %s %v %+v", e.Message, e.Details, e.Error(), e.Err, e.Err)
		for _, form := range []string{text, string(quoted[1 : len(quoted)-1]), url.QueryEscape(text), url.PathEscape(text)} {
			if strings.Contains(everything, form) {
				t.Fatalf("%q is in %s", form, everything)
			}
		}
	}
}

func TestPartsOfASecretAreRedactedToo(t *testing.T) {
	entry, _ := secretive(t, nil).Lookup("PROBE")
	redact := entry.Redactor(json.RawMessage(`{"node":"https://user:passphrase@node.example/v3/0123456789abcdef?key=query-secret","headers":{"Authorization":"Bearer abcdef123456"},"pin":98765432}`), nil)
	got := redact.Text("bad project 0123456789abcdef, query-secret, passphrase, abcdef123456, 98765432 at node.example")
	if want := "bad project [redacted], [redacted], [redacted], [redacted], [redacted] at node.example"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := redact.Text("short words stay: v3 key"); got != "short words stay: v3 key" {
		t.Errorf("got %s", got)
	}
}

// The response of an upstream that echoes a request is truncated, possibly in the middle of a
// secret. The start of the secret must be redacted, even after earlier redactions shorten the
// text.
func TestMT08TheBeginningOfASecretAtACutIsRedacted(t *testing.T) {
	secret := strings.Repeat("s3cr3t-", 100)
	entry, _ := secretive(t, nil).Lookup("PROBE")
	input, _ := json.Marshal(map[string]string{"token": secret})
	redact := entry.Redactor(input, nil)
	for _, left := range []int{8, 9, 100, 699} {
		if got := redact.Text("echo: " + secret + secret + secret[:left]); got != "echo: [redacted][redacted][redacted]" {
			t.Errorf("%d bytes of it: %.200s", left, got)
		}
	}
	if got := redact.Text("echo: " + secret[:7]); got != "echo: s3cr3t-" {
		t.Errorf("too short to redact: %s", got)
	}
}

// A message can quote a truncated value and continue after it.
func TestMT08TheBeginningOfASecretBeforeAMarkOfACutIsRedacted(t *testing.T) {
	secret := strings.Repeat("s3cr3t-", 10)
	dotted := "dots...in-it..." + secret
	entry, _ := secretive(t, nil).Lookup("PROBE")
	input, _ := json.Marshal(map[string]string{"token": secret, "node": dotted})
	redact := entry.Redactor(input, nil)
	for text, want := range map[string]string{
		`there is no "` + secret[:48] + `"...; there is "f"`:                            `there is no "[redacted]"...; there is "f"`,
		`there is no "` + secret[:48] + `"....`:                                         `there is no "[redacted]"....`,
		`types.` + secret[:48] + `...: has none`:                                        `types.[redacted]...: has none`,
		`"` + secret[:20] + `"... and "` + secret[:30] + `"... and ` + secret[:9]:       `"[redacted]"... and "[redacted]"... and [redacted]`,
		`there is no "` + dotted[:30] + `"..., not at all`:                              `there is no "[redacted]"..., not at all`,
		`there is no "` + secret[:7] + `"..., and "another"...`:                         `there is no "s3cr3t-"..., and "another"...`,
		strings.Repeat("...", 10_000) + secret[:48] + `"...` + strings.Repeat("...", 8): strings.Repeat("...", 10_000) + `[redacted]"...` + strings.Repeat("...", 8),
	} {
		if got := redact.Text(text); got != want {
			t.Errorf("%.200s became %.200s", text, got)
		}
	}
}

func TestMT08ASecretIsFoundInTheFormsThatOthersGiveIt(t *testing.T) {
	entry, _ := secretive(t, nil).Lookup("PROBE")
	redact := entry.Redactor(json.RawMessage(`{"token":"tok/en+\"of<the>&caller'","headers":{"Authorization":"Basic YWRhOmNvcnJlY3QgaG9yc2U="}}`), nil)
	for name, text := range map[string]string{
		"plain": `tok/en+"of<the>&caller'`, "JSON": `tok/en+\"of<the>&caller'`, "JSON with escaped HTML": `tok/en+\"of\u003cthe\u003e\u0026caller'`,
		"JSON with escaped slashes": `tok\/en+\"of<the>&caller'`, "HTML": `tok/en+&#34;of&lt;the&gt;&amp;caller&#39;`,
		"a query": `tok%2Fen%2B%22of%3Cthe%3E%26caller%27`, "the pair of Basic": "ada:correct horse", "its password": "correct horse",
		"its encoding": "YWRhOmNvcnJlY3QgaG9yc2U=",
	} {
		if got := redact.Text("<" + text + ">"); got != "<[redacted]>" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Codes, classes and field names are not redacted even if they equal a secret. All other
// occurrences of a secret are redacted.
func TestTheFormOfDetailsOutlivesTheSecretsInThem(t *testing.T) {
	t.Parallel()
	const details = `{"class":"malformed","componentId":"INVALID_INPUT","first":{"code":"INVALID_INPUT","index":12,"message":"a malformed INVALID_INPUT"},"malformed":"INVALID_INPUT","nonce":98765432,"upstreamCode":-32000}`
	many := make([]string, MaxSecrets+1)
	for i := range many {
		many[i] = fmt.Sprintf("the secret %d", i)
	}
	for name, c := range map[string]struct {
		secrets []string
		want    string
	}{
		"words": {[]string{"INVALID_INPUT", "malformed", "componentId", "upstreamCode", "98765432"},
			`{"class":"malformed","componentId":"[redacted]","first":{"code":"INVALID_INPUT","index":12,"message":"a [redacted] [redacted]"},"malformed":"[redacted]","nonce":"[redacted]","upstreamCode":-32000}`},
		"so many that no text is shown": {many,
			`{"class":"malformed","componentId":"[redacted]","first":{"code":"INVALID_INPUT","index":12,"message":"[redacted]"},"malformed":"[redacted]","nonce":"[redacted]","upstreamCode":-32000}`},
		"none": {nil, details},
	} {
		if got := string(NewRedactor(c.secrets...).details(json.RawMessage(details))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// A value that looks like a code but isn't a known code can be the secret itself.
	if got := string(NewRedactor("AKIAEXAMPLE7").JSON(json.RawMessage(`{"code":"AKIAEXAMPLE7"}`))); got != `{"code":"[redacted]"}` {
		t.Errorf("a code that an upstream gave: %s", got)
	}
}

func TestErrorTextsAreFitToBeStored(t *testing.T) {
	r := secretive(t, func(context.Context, Call) (Result, error) {
		return Result{}, Permanent("ODD", "a\x00b\r\n\x1b[31m\xff%s", strings.Repeat("é", 5000)).With(map[string]string{"k\x00": "v\x00"})
	})
	_, err := r.Run(t.Context(), "PROBE", Call{})
	e := errorOf(t, err)
	if len(e.Message) > MaxMessage || strings.ContainsAny(e.Message, "\x00\r\n\x1b\uFFFD") || !strings.HasPrefix(e.Message, "a b") {
		t.Errorf("message %q", e.Message)
	}
	if string(e.Details) != `{"k ":"v "}` {
		t.Errorf("details %s", e.Details)
	}
}

// opening is a module with one header that isn't secret.
type opening struct{ scripted }

func (opening) Open(name string) bool { return strings.EqualFold(name, "accept") }

// A response is secret only if it repeats a secret of the request.
func TestMT05AnAnswerThatRepeatsASecretShowsIt(t *testing.T) {
	r, err := NewRegistry(opening{scripted{Descriptor: descriptor(func(d *Descriptor) { d.Input = json.RawMessage(secretSchema) })}})
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := r.Lookup("PROBE")
	call := Call{
		Input: json.RawMessage(`{"token":"0xfeedc0de1234","pin":1234567890,"node":"https://ada:pa55phrase@rpc.example.com/v3/mainnet-main/9aa3d95b3bc440fa?key=k3y-of-node",
			"headers":{"Accept":"application/json","Authorization":"Bearer of-my-house","X-Basic":"Basic c2tfbGl2ZV85OTpzZXNhbWVzZXNhbWU=","X-Cookie":"theme=darkness; sid=5e551on1d","X-Short":"on"},
			"keys":[{"private":{"deep":["four-deep"]},"label":"a label that is open"}],"open":"an open value"}`),
		Secrets: []string{"the value of a variable", "short"},
	}
	for _, text := range []string{
		"0xfeedc0de1234", "FEEDC0DE1234", "1234567890", "pa55phrase", "9aa3d95b3bc440fa", "k3y-of-node", "Bearer of-my-house", "of-my-house", "sk_live_99:sesamesesame",
		"sk_live_99", "sesamesesame", "c2tfbGl2ZV85OTpzZXNhbWVzZXNhbWU", "5e551on1d", "four-deep", "the value of a variable", "the+value+of+a+variable", "dGhlIHZhbHVlIG9mIGEgdmFyaWFibGU",
	} {
		if given, _ := json.Marshal(map[string]any{"body": "it was " + text + "."}); !entry.Shows(call, given) {
			t.Errorf("%s does not show a secret", given)
		}
	}
	for _, text := range []string{
		"application/json", "darkness", "mainnet-main", "rpc.example.com", "Bearer", "Basic", "on", "short", "a label that is open", "an open value", "123456789", "of-my-hous",
	} {
		if given, _ := json.Marshal(map[string]any{"body": "it was " + text + "."}); entry.Shows(call, given) {
			t.Errorf("%s shows a secret", given)
		}
	}
	if entry.Shows(Call{Input: json.RawMessage(`{"headers":{}}`)}, json.RawMessage(`{"body":"0xfeedc0de1234"}`)) || entry.Shows(Call{}, nil) {
		t.Error("where nothing was secret, something is")
	}
	if !entry.Shows(Call{Input: json.RawMessage(`{"headers":`)}, json.RawMessage(`{}`)) || !entry.Shows(Call{Secrets: make([]string, MaxSecrets+1)}, json.RawMessage(`{}`)) {
		t.Error("what cannot be looked for is not taken to be there")
	}
	for words, shows := range map[int]bool{MaxSecrets / 2: false, MaxSecrets + 1: true} {
		var many strings.Builder
		for i := range words {
			fmt.Fprintf(&many, "word-%06d ", i)
		}
		call := Call{Input: json.RawMessage(`{"headers":{"X-Much":"` + many.String() + `"}}`)}
		if entry.Shows(call, json.RawMessage(`{}`)) != shows {
			t.Errorf("of a secret of %d words: %t", words, !shows)
		}
	}
}

// BenchmarkAnOrdinaryCall measures the overhead of a call with one secret header, and the part of
// it that searches for an echo.
func BenchmarkAnOrdinaryCall(b *testing.B) {
	output := json.RawMessage(`{"status":200,"headers":{"content-type":"application/json; charset=utf-8","server":"nginx","date":"Mon, 02 Jan 2006 15:04:05 GMT"},"body":{"items":[` +
		strings.Repeat(`{"id":12345,"name":"An item","price":"3120.55","at":"2026-01-02T03:04:05+00:00"},`, 50) + `null]},"bodyEncoding":"json"}`)
	r, err := NewRegistry(scripted{
		Descriptor: descriptor(func(d *Descriptor) { d.Input = json.RawMessage(secretSchema) }),
		run:        func(context.Context, Call) (Result, error) { return Result{Output: output}, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	entry, _ := r.Lookup("PROBE")
	for name, input := range map[string]string{"none": `{"open":"x"}`, "one": `{"headers":{"Authorization":"Bearer 9aa3d95b3bc440fa88ea12eaa4456161"}}`} {
		call := Call{Input: json.RawMessage(input)}
		b.Run(name+"/call", func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Run(b.Context(), "PROBE", call); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/echo", func(b *testing.B) {
			for b.Loop() {
				if entry.Shows(call, output) {
					b.Fatal("it shows one")
				}
			}
		})
	}
}

// Time and memory for redaction are limited for any secrets and any text. Text that exceeds a limit
// is not shown.
func TestWhatARedactorDoesIsBounded(t *testing.T) {
	t.Parallel()
	long := func(n, length int) string { return strings.Repeat(fmt.Sprintf("%06d-é</", n), length/11+1)[:length] }
	var words, large, alike []string
	for n := range maxParts + 1 {
		words = append(words, fmt.Sprintf("word-%06d", n))
	}
	for n := range MaxSecrets {
		alike = append(alike, strings.Repeat("a", 3_000)+strconv.Itoa(n))
	}
	for n := range 2 * maxSought / maxText {
		large = append(large, long(n, maxText))
	}
	for name, c := range map[string]struct {
		secrets []string
		whole   bool
	}{
		"as many parts as are sought": {[]string{strings.Join(words[1:], " ")}, false},
		"the same part many times":    {[]string{strings.Repeat("the-same-part ", 10*MaxSecrets)}, false},
		"one more":                    {[]string{strings.Join(words, " ")}, true},
		"as many as are sought":       {words[:MaxSecrets], false},
		"one secret more":             {words[:MaxSecrets+1], true},
		"as long as are sought":       {[]string{long(1, 1<<20), long(2, 1<<20)}, false},
		"longer":                      {large, true},
	} {
		if r := NewRedactor(c.secrets...); r.Whole() != c.whole {
			t.Errorf("%s: %v that no text is shown", name, r.Whole())
		}
	}

	secret := long(7, 1<<20)
	redact := NewRedactor(secret)
	for left := range 40 {
		if got := redact.Text(strings.Repeat("x", maxText-left) + secret); strings.Contains(got, secret[:minSecret]) || len(got) > maxText+len(Redacted) {
			t.Errorf("%d bytes before the end of what is shown: %q", left, got[len(got)-50:])
		}
	}
	for _, size := range []int{maxText - 6, maxText, maxText + 9, 1 << 20} {
		if got := redact.Text("echo: " + secret[:size]); got != "echo: "+Redacted {
			t.Errorf("%d bytes of a long secret: %.50q", size, got)
		}
	}
	quoted, _ := json.Marshal(secret)
	if got := redact.Text("echo: " + string(quoted[1:])); got != "echo: "+Redacted {
		t.Errorf("a long secret as JSON: %.50q", got)
	}
	if got, want := NewRedactor(alike[:900]...).Text(strings.Repeat(strings.Repeat("a", 900)+"x...", 30)), strings.Repeat(Redacted+"x...", 30); got != want {
		t.Errorf("the start of many secrets: %.50q", got)
	}
	if got := redact.details(json.RawMessage(`{"a":["` + strings.Repeat(`x","`, maxText) + `"]}`)); got != nil {
		t.Errorf("%d bytes of details", len(got))
	}
}
