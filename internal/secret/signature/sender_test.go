package signature

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// FuzzSender checks that no header panics, and that two deliveries that differ don't have the same
// signed text.
func FuzzSender(f *testing.F) {
	f.Add("t=1,v1=00", "1", "a", "{}", "2", "b", "{}")
	f.Add("v1=;t==,,v1", "1795256130", "a.b", "c", "1795256130", "a", "b.c")
	f.Add("v1=00", "1", "a", "1.a.x", "1", "a.1", "a.x")
	template, err := ParseTemplate("v0:{timestamp}.{id}.{body}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header, at, id, body, otherAt, otherID, otherBody string) {
		s := Sender{Text: template, Header: "X-Mac", Element: "v1", Algorithm: "sha256", Encoding: "hex", TimestampHeader: "X-Time", IDHeader: "X-Id", Tolerance: time.Minute}
		headers := func(at, id string) func(string) []string {
			return func(name string) []string {
				return map[string][]string{"X-Mac": {header}, "X-Time": {at}, "X-Id": {id}}[name]
			}
		}
		if err := s.Check([][]byte{[]byte("a secret of the test")}, headers(at, id), []byte(body), time.Unix(0, 0)); err == nil {
			t.Errorf("%q is accepted", header)
		}
		if found := elements([]string{header}, "v1"); len(found) > strings.Count(header, "v1=") {
			t.Errorf("%q has the signatures %q", header, found)
		}
		one, _, err := s.SignedText(headers(at, id), []byte(body))
		if err != nil {
			return
		}
		other, _, err := s.SignedText(headers(otherAt, otherID), []byte(otherBody))
		_, wrong := ParseTime(at)
		_, otherWrong := ParseTime(otherAt)
		if err == nil && wrong == nil && otherWrong == nil && bytes.Equal(one, other) && (at != otherAt || id != otherID || body != otherBody) {
			t.Errorf("%q is signed twice", one)
		}
	})
}
