package expression_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// evaluated returns the result of an expression as JSON, or its error.
func evaluated(t *testing.T, text string, values map[string]any) string {
	t.Helper()
	program, err := expression.Compile(text)
	if err != nil {
		return err.Error()
	}
	value, err := program.Run(values)
	if err != nil {
		if !errors.As(err, new(*expression.Error)) {
			t.Errorf("%s: %v is not an error of the language", text, err)
		}
		return err.Error()
	}
	encoded, err := strictjson.Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// expect fails the test unless each expression has the result, or an error that contains it.
func expect(t *testing.T, values map[string]any, rows map[string]string) {
	t.Helper()
	for text, want := range rows {
		got := evaluated(t, text, values)
		if message, isError := strings.CutPrefix(want, "error: "); got != want && (!isError || !strings.Contains(got, message)) {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestTimesAndDurations(t *testing.T) {
	t.Parallel()
	expect(t, map[string]any{"at": "2026-12-24T19:00:00.1239+01:00", "lower": "2026-12-24t18:00:00z"}, map[string]string{
		`date(at)`:                             `"2026-12-24T18:00:00.123Z"`,
		`date(lower)`:                          `"2026-12-24T18:00:00.000Z"`,
		`date(at, "Asia/Tokyo")`:               `"2026-12-24T18:00:00.123Z"`,
		`date("2026-12-24")`:                   `"2026-12-24T00:00:00.000Z"`,
		`date("2026-12-24T18:00:05.5")`:        `"2026-12-24T18:00:05.500Z"`,
		`date("2026-12-24T18:00", "Etc/UTC")`:  `"2026-12-24T18:00:00.000Z"`,
		`date("2016-12-31T23:59:60Z")`:         `"2017-01-01T00:00:00.000Z"`,
		`date("24.12.2026")`:                   `error: argument of date(): expected a time, such as`,
		`date("2026-02-30")`:                   `error: expected a time`,
		`date("0000-01-01T00:00:00+01:00")`:    `error: years 0 to 9999`,
		`date("2026-12-24", "Europe/Nowhere")`: `error: argument 2 of date(): expected the IANA name of a time zone`,
		`date("2026-12-24", "Local")`:          `error: IANA`,
		`date(7)`:                              `error: must be a string, got a number`,

		`date(at) + duration("36h")`:                                  `"2026-12-26T06:00:00.123Z"`,
		`duration("1d") + at`:                                         `"2026-12-25T18:00:00.123Z"`,
		`at - duration("1h30m")`:                                      `"2026-12-24T16:30:00.123Z"`,
		`at - lower == duration("123ms")`:                             `true`,
		`(date("2026-12-24") - date("2026-12-20")) / duration("1d")`:  `4`,
		`duration("1h") + duration("30m") > duration("1h")`:           `true`,
		`duration("60m") == duration("1h")`:                           `true`,
		`duration("1h") - duration("2h") < duration("0s")`:            `true`,
		`duration("1h") == 3600000`:                                   `false`,
		`sort(["2026-01-01T10:00:00+02:00", "2026-01-01T09:00:00Z"])`: `["2026-01-01T10:00:00+02:00","2026-01-01T09:00:00Z"]`,
		`lower < at`: `true`,
		`"2026-01-01T00:00:00Z" < "2026-01-01T00:00:00.5Z"`:     `true`,
		`"2026-01-01T00:00:00Z" >= "2026-01-01T00:30:00+01:00"`: `true`,
		`type(duration("1s"))`:                                  `"duration"`,
		`duration("1s")`:                                        `error: the result has a duration`,
		`{a: [duration("1s")]}`:                                 `error: the result has a duration`,
		`string(duration("1s"))`:                                `error: the result has a duration`,
		`toJSON([duration("1s")])`:                              `error: the result has a duration`,
		`"x" + duration("1s")`:                                  `error: + of a duration needs a time, such as now() or date(text), or another duration; got a string and a duration`,
		`duration("1s") - at`:                                   `error: - of a duration`,
		`duration("1s") * 2`:                                    `error: * of a duration`,
		`duration("1s") / duration("0s")`:                       `error: division by zero`,
		`duration("1s") > 1`:                                    `error: got a duration and a number`,
		`duration("9999999d")`:                                  `error: expected a duration`,
		`duration("3660000d") + duration("3660000d")`:           `error: at most 10,000 years`,
		`duration("")`:                                          `error: such as 90s, 36h or 1h30m`,
		`duration("1.5h")`:                                      `error: expected a duration`,
		`duration("30m1h")`:                                     `error: expected a duration`,
		`duration("1 h")`:                                       `error: expected a duration`,
		`date("9999-12-31") + duration("2d")`:                   `error: the result is not in the years 0 to 9999`,
		`at - 1`:                                                `error: - needs two numbers`,

		`plus(at, 1, "hour")`:                                `"2026-12-24T19:00:00.123Z"`,
		`plus("2024-02-29T00:00:00Z", -1, "year")`:           `"2023-02-28T00:00:00.000Z"`,
		`plus("2026-03-31T00:00:00Z", -1, "month")`:          `"2026-02-28T00:00:00.000Z"`,
		`plus(at, 1, "days")`:                                `error: argument 3 of plus(): expected millisecond, second, minute, hour, day, week, month or year`,
		`plus("2026-12-24", 1, "day")`:                       `error: argument 1 of plus() must be a time, such as now() or date(text), got another string`,
		`plus(at, 1.5, "day")`:                               `error: must be a whole number`,
		`plus(at, 9223372036854775807, "day")`:               `error: the result is not in the years 0 to 9999`,
		`plus(at, -9223372036854775807, "hour")`:             `error: the result is not in the years 0 to 9999`,
		`plus(at, 9000, "year")`:                             `error: the result is not in the years 0 to 9999`,
		`startOf(at, "week")`:                                `"2026-12-21T00:00:00.000Z"`,
		`startOf(at, "year", "Asia/Tokyo")`:                  `"2025-12-31T15:00:00.000Z"`,
		`startOf("1969-12-31T23:59:59.9Z", "minute")`:        `"1969-12-31T23:59:00.000Z"`,
		`startOf(at, "quarter")`:                             `error: argument 2 of startOf(): expected`,
		`format(at, "%A %e. %B %Y, %H:%M %Z", "Asia/Tokyo")`: `"Friday 25. December 2026, 03:00 JST"`,
		`format(at, "%")`:                                    `error: argument 2 of format(): unknown conversion after the percent sign at position 1`,
		`format("now", "%Y")`:                                `error: argument 1 of format() must be a time`,
		`let plus = 1; let hash = 2; plus + hash`:            `3`,
		`timezone("UTC")`:                                    `error: zones are named by text`,
		`now()`:                                              `error: there is no clock here`,
	})
}

func TestFunctionsForTextsAndLists(t *testing.T) {
	t.Parallel()
	expect(t, map[string]any{"price": json.Number("0.10000000000000000000000000005"), "half": 2.5, "huge": json.Number("1e300"), "far": json.Number("1e3000"), "rows": []any{map[string]any{"b": json.Number("1.50"), "a": nil}, map[string]any{"c": []any{true}}}}, map[string]string{
		`fixed(1, 2)`:        `"1.00"`,
		`fixed(half, 0)`:     `"3"`,
		`fixed(-half, 0)`:    `"-3"`,
		`fixed("1.005", 2)`:  `"1.01"`,
		`fixed("-0.001", 2)`: `"0.00"`,
		`fixed(price, 28)`:   `"0.1000000000000000000000000001"`,
		`fixed("123456789012345678901234567890.5", 0)`: `"123456789012345678901234567891"`,
		`len(fixed(huge, 2))`:                          `304`,
		`fixed(far, 2)`:                                `error: can have at most 1000 digits`,
		`fixed("1e2", 2)`:                              `error: must be a number or a decimal text`,
		`fixed(" 1", 2)`:                               `error: must be a number or a decimal text`,
		`fixed("1/3", 2)`:                              `error: must be a number or a decimal text`,
		`fixed("x", 2)`:                                `error: must be a number or a decimal text`,
		`fixed(1, -1)`:                                 `error: between 0 and 100`,
		`fixed(true, 1)`:                               `error: must be a number, got a boolean`,
		`chunk([1, 2, 3, 4], 2)`:                       `[[1,2],[3,4]]`,
		`chunk([], 2)`:                                 `[]`,
		`chunk([1], 9223372036854775807)`:              `[[1]]`,
		`chunk([1], 0)`:                                `error: at least 1 item`,
		`merge({a: 1}, {}, {a: nil, b: 2})`:            `{"a":null,"b":2}`,
		`merge({a: 1}, nil)`:                           `error: argument 2 of merge() must be an object, got nil`,
		`match("2026-12", "(?P<y>\\d+)-(\\d+)(x)?")`:   `["2026-12","2026","12",null]`,
		`match("a", "b")`:                              `null`,
		`match("a", "(")`:                              `error: invalid regular expression`,
		`escapeHTML("<a href='x'>&\"")`:                `"&lt;a href=&#39;x&#39;&gt;&amp;&#34;"`,
		`urlEncode("ä/?+ ~-_.")`:                       `"%C3%A4%2F%3F%2B%20~-_."`,
		`basicAuth("a:b", "c")`:                        `error: cannot contain a colon`,
		`basicAuth("", "ä")`:                           `"Basic OsOk"`,
		`hash("")`:                                     `"0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`,
		`hash("abc", "sha256", "base64url")`:           `"ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"`,
		`hash("abc", "md4")`:                           `error: argument 2 of hash() must be sha256, sha512, keccak256, blake2b or ripemd160`,
		`hash("abc", "sha256", "utf8")`:                `error: argument 3 of hash() must be hex, plainHex`,
		`hmac("", "abc")`:                              `error: argument 1 of hmac() is an empty key`,
		`hmac("zz", "abc", "sha256", "hex")`:           `error: argument 1 of hmac() must be pairs of hexadecimal digits`,
		`hmac("k", "abc", "sha256", "rot13")`:          `error: argument 4 of hmac() must be utf8`,
		`hmac("k", "abc", "md5")`:                      `error: argument 3 of hmac() must be sha256, sha384, sha512 or sha1`,
		`decodeForm("a=1+2&b=%C3%A4&c=&a=")`:           `{"a":["1 2",""],"b":"ä","c":""}`,
		`decodeForm("")`:                               `{}`,
		`decodeForm("a=%zz")`:                          `error: decodeForm() accepts fields`,
		`formatCSV(rows)`:                              `"a,b,c\r\n,1.50,\r\n,,[true]\r\n"`,
		`formatCSV([])`:                                `""`,
		`formatCSV([[1], {a: 1}])`:                     `error: must all be arrays, or all be objects`,
		`formatCSV([1])`:                               `error: each row of formatCSV() must be an array or an object, got a number`,
	})
}

// RFC 4231, section 4, with keys and data in hexadecimal digits.
func TestHMACPassesTheVectorsOfRFC4231(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, data, sha256, sha512 string }{
		{strings.Repeat("0b", 20), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7", "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854"},
		{"4a656665", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"},
		{strings.Repeat("aa", 131), "Test Using Larger Than Block-Size Key - Hash Key First", "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54", "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598"},
		{strings.Repeat("aa", 131), "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.", "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2", "e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944b6022cac3c4982b10d5eeb55c3e4de15134676fb6de0446065c97440fa8c6a58"},
	} {
		values := map[string]any{"key": c.key, "data": c.data}
		expect(t, values, map[string]string{
			`hmac(key, data, "sha256", "hex", "plainHex")`: `"` + c.sha256 + `"`,
			`hmac(key, data, "sha512", "hex", "plainHex")`: `"` + c.sha512 + `"`,
		})
	}
}

// The rules of RFC 4180, section 2, by number.
func TestCSVFollowsRFC4180(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"1 lines":               {"h,i,j\r\naaa,bbb,ccc\r\nzzz,yyy,xxx\r\n", `[{"h":"aaa","i":"bbb","j":"ccc"},{"h":"zzz","i":"yyy","j":"xxx"}]`},
		"2 no break at the end": {"h\r\naaa", `[{"h":"aaa"}]`},
		"3 header only":         {"h,i\r\n", `[]`},
		"4 spaces":              {"h,i\r\n a , b\r\n", `[{"h":" a ","i":" b"}]`},
		"4 number of fields":    {"h,i\r\na\r\n", `error: parseCSV(): line 2 of the text: wrong number of fields`},
		"5 quotation marks":     {"\"h\",i\r\n\"aaa\",bbb\r\n", `[{"h":"aaa","i":"bbb"}]`},
		"5 bare mark":           {"h\r\na\"b\r\n", `error: parseCSV(): line 2 of the text: bare`},
		"6 breaks and commas":   {"h,i\r\n\"b\r\nb\",\"c,\nc\"\r\n", `[{"h":"b\r\nb","i":"c,\nc"}]`},
		"7 doubled marks":       {"h\r\n\"b\"\"bb\"\r\n", `[{"h":"b\"bb"}]`},
		"7 not closed":          {"h\r\n\"b", `error: parseCSV(): line 2 of the text: extraneous`},
		"empty":                 {"", `[]`},
		"byte order mark":       {"\ufeffh\n1\n", `[{"h":"1"}]`},
		"same names":            {"h,h\n1,2\n", `error: two columns have the same name`},
	} {
		got := evaluated(t, "parseCSV(text)", map[string]any{"text": c.text})
		if message, isError := strings.CutPrefix(c.want, "error: "); got != c.want && (!isError || !strings.Contains(got, message)) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	expect(t, map[string]any{"rows": []any{[]any{"aaa", "b\r\nbb", "c\"c", "d,d", " e", ""}, []any{"", "\n", "\r", "ä", "#", "'"}}}, map[string]string{
		`formatCSV(rows)`: `"aaa,\"b\r\nbb\",\"c\"\"c\",\"d,d\",\" e\",\r\n,\"\n\",\"\r\",ä,#,'\r\n"`,
	})
}

// What formatCSV writes, parseCSV reads.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{"", "a", "a\r\nb", `"`, "\r", "\n\n", ",", "\ue000\r", `\.`, "\ufeff"} {
		f.Add(text, text+"x")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		values := map[string]any{"first": first, "second": second}
		for _, rows := range []string{`[{x: first}, {x: second}]`, `[{"x": first, (second): "y"}]`} {
			program, err := expression.Compile("let rows = " + rows + "; parseCSV(formatCSV(rows)) == rows")
			if err != nil {
				t.Fatal(err)
			}
			if same, err := program.Run(values); err != nil || same != true && second != "x" {
				t.Errorf("%q and %q: %v, %v", first, second, same, err)
			}
		}
	})
}

func TestNewFunctionsStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("a,b\n", 1<<18)
	values := map[string]any{"big": big, "at": "2026-12-24T18:00:00Z", "form": strings.Repeat("a=1&", 1<<18), "list": make([]any, 90_000)}
	for _, text := range []string{
		`len(parseCSV(big))`, `len(decodeForm(form))`, `map(1..100000, hash(big))`, `map(1..10000, hmac(big, big))`, `map(1..100000, plus(at, #, "day"))`,
		`map(1..100000, date("2026-12-24"))`, `map(1..5000, format(at, "%Y", # % 2 == 0 ? "Asia/Tokyo" : "Europe/Berlin"))`, `map(1..100, format(at, repeat("%A", 100000)))`,
		`map(1..1000, chunk(list, 1))`, `map(1..1000, escapeHTML(big))`, `map(1..1000, urlEncode(big))`, `match(repeat("a", 1000000), "(a?){90}b")`,
		`map(1..100000, fixed(repeat("1", 900), 100))`, `map(1..1000, basicAuth(big, big))`, `map(1..1000, hmac(repeat("z", 5000), "a", "sha256", "base58"))`, `map(1..100, formatCSV([[big]]))`,
	} {
		program, err := expression.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		var failed *expression.Error
		if _, err := program.Run(values); !errors.As(err, &failed) || failed.Code != expression.TooExpensive && !strings.HasPrefix(text, "len(") && !strings.Contains(text, "base58") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
