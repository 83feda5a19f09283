package strictjson

import (
	"slices"
	"testing"
)

func TestEncodeLikeKeepsTheOrderOfFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ like, value, want string }{
		{`{"z":1,"a":2}`, `{"a":2,"z":3}`, `{"z":3,"a":2}`},
		{`{"z":{"y":1,"b":[{"d":1,"c":2}]},"a":2}`, `{"z":{"y":1,"b":[{"d":1,"c":2},{"d":1,"c":2}]},"a":2}`, `{"z":{"y":1,"b":[{"d":1,"c":2},{"c":2,"d":1}]},"a":2}`},
		{`{"z":1,"gone":2}`, `{"a":null,"b":"<&>","z":1.50}`, `{"z":1.50,"a":null,"b":"<&>"}`},
		{`{"z":1}`, `[1]`, `[1]`},
		{`[]`, `[[],{}]`, `[[],{}]`},
		{`{}`, `{}`, `{}`},
		{`"text"`, `{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{`{"":1,"a":[]}`, `{"":1,"a":[""]}`, `{"":1,"a":[""]}`},
	} {
		value, err := Decode([]byte(c.value))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := EncodeLike(value, []byte(c.like)); err != nil || string(got) != c.want {
			t.Errorf("%s like %s: %s, %v; want %s", c.value, c.like, got, err, c.want)
		}
	}
}

func TestNamesKeepTheOrderOfFields(t *testing.T) {
	t.Parallel()
	if got, err := Names([]byte(` {"z":{"y":1e400},"a":[],"b":null}`)); err != nil || !slices.Equal(got, []string{"z", "a", "b"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{`[]`, `1`, ``, `{"a"`} {
		if got, err := Names([]byte(text)); err == nil {
			t.Errorf("%s has the names %q", text, got)
		}
	}
}
