package content

import (
	"testing"
	"unicode/utf8"
)

func TestIsJSON(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON;charset=latin1": true, "text/json": true, "text/json; charset": true,
		"application/problem+json": true, "application/json; charset=utf-8, text/json": true, " application/json ;;=": true,
		"": false, "text/plain": false, "application/jsonp": false, "application/x-amz-json-1.0": false, "application/x-ndjson": false,
	} {
		if got := IsJSON(contentType); got != want {
			t.Errorf("%q: %v", contentType, got)
		}
	}
}

// The bytes are from the index tables of the WHATWG Encoding Standard.
func TestTextIsDecodedByTheDeclaredCharset(t *testing.T) {
	for name, c := range map[string]struct{ charset, body, want string }{
		"none":               {"", "é\xff", "é\xff"},
		"UTF-8":              {"; charset=utf8", "é", "é"},
		"UTF-8 mark":         {"; charset=utf-8", "\xef\xbb\xbf{}", "{}"},
		"mark":               {"", "\xef\xbb\xbf{}", "{}"},
		"broken UTF-8":       {"; charset=UTF-8", "a\xffb", "a\xffb"},
		"Latin 1":            {"; charset=ISO-8859-1", "caf\xe9 \x80", "café €"},
		"windows":            {`; charset="windows-1251"`, "\xcf\xf0\xe8", "При"},
		"Shift JIS":          {"; charset=shift_jis", "\x93\xfa\x96\x7b", "日本"},
		"Shift JIS, invalid": {"; charset=shift_jis", "a\xffb", "a\xffb"},
		"GBK":                {"; charset=gb2312", "\xc4\xe3", "你"},
		"EUC-KR":             {"; charset=euc-kr", "\xc7\xd1", "한"},
		"UTF-16":             {"; charset=utf-16", "{\x00}\x00", "{}"},
		"UTF-16 mark":        {"; charset=utf-16", "\xfe\xff\x00{\x00}", "{}"},
		"UTF-16, invalid":    {"; charset=utf-16le", "a\x00\x00\xd8", "a\xff"},
		"no label":           {"; charset=utf8mb4", "é", "é"},
		"not guessed":        {"", "caf\xe9", "caf\xe9"},
	} {
		got, err := Text("text/plain"+c.charset, []byte(c.body))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
	for _, charset := range []string{"iso-2022-jp", "ISO-2022-KR", "hz-gb-2312", "replacement"} {
		if got, err := Text("text/plain; charset="+charset, []byte("a")); err == nil {
			t.Errorf("%s was decoded as %q", charset, got)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("text/plain; charset=utf-16", []byte("\xff\xfe\x00\xd8"))
	f.Add("x; charset=gb18030", []byte("\x84\x31\xa4\x37"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		if text, err := Text(contentType, body); err == nil && len(text) > 3*len(body)+utf8.UTFMax {
			t.Errorf("%d bytes became %d", len(body), len(text))
		}
	})
}
