package template_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component/template"
	"github.com/weft-automation/weft/internal/kit/reference"
)

// filled fills an address with the values of start.a, start.b and env.HOST.
func filled(t *testing.T, text string, origins []string, values map[string]any) (string, error) {
	t.Helper()
	compiled, err := template.Compile(text, func(name string) bool { return name == "start" || reference.IsName(name) })
	if err != nil {
		t.Fatal(err)
	}
	address, _, err := template.Address{Text: compiled}.Fill(&template.Values{Value: func(p reference.Path) (any, bool) {
		value, exists := values[p.String()]
		return value, exists
	}}, origins, false)
	got, _ := address.(string)
	return got, err
}

func TestOriginsAreComparedAsTheURLStandardDoes(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{
		"https://api.example/x": true, "HTTPS://API.example:443/": true, "https://api.example": true, "https://api.example.:443/": true, "https://eu.shop.example/": true,
		"http://api.example/": false, "https://api.example:8443/": false, "https://api.example.evil/": false, "https://shop.example/": false, "https://a.eu.shop.example/": false,
		"https://evil.example/?https://api.example": false, "https://api.example@evil.example/": false, "https://api.example\\@evil.example/": false,
		"//api.example/": false, "https:/api.example/": false, "javascript:alert(1)": false, "": false, "https://": false, "https://evilshop.example/": false,
	} {
		_, err := filled(t, "{{ start.a }}", []string{"https://api.example", "https://*.shop.example"}, map[string]any{"start.a": address})
		if (err == nil) != allowed {
			t.Errorf("%q: %v, want allowed %t", address, err, allowed)
		}
	}
}

func TestEntriesOfAllowedOriginsAreOrigins(t *testing.T) {
	t.Parallel()
	for entry, valid := range map[string]bool{
		"https://api.example": true, "https://api.example/": true, "http://127.0.0.1:8080": true, "https://*.shop.example": true, "https://[::1]:1": true,
		"api.example": false, "https://": false, "https://api.example/x": false, "https://api.example?x": false, "https://u@api.example": false, "https://*": false, "https://a.*.example": false, "ftp://api.example": false, "https://api.example#x": false, "*": false,
	} {
		if reason := template.CheckOrigin(entry); (reason == "") != valid {
			t.Errorf("%q: %q, want valid %t", entry, reason, valid)
		}
	}
}

// Whatever the values are, the filled address has the origin, the number of segments and the fields of the
// query that its author wrote.
func FuzzAddress(f *testing.F) {
	for _, seed := range [][3]string{{"../admin", "x", "https://api.example"}, {"a/b", "&c=d", "https:/"}, {"..", "#", "https://h:1"}, {"%2e%2e", "\r\n", ""}, {"@evil.example", "?", "https://u@h"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, a, b, host string) {
		values := map[string]any{"start.a": a, "start.b": b, "env.HOST": host}
		address, err := filled(t, "https://api.example/v1/{{ start.a }}/x{{ start.b }}?q={{ start.a }}&r={{ start.b }}", nil, values)
		if err == nil {
			u, err := url.Parse(address)
			if err != nil || u.Scheme != "https" || u.Host != "api.example" || u.User != nil || u.Fragment != "" || strings.Count(u.EscapedPath(), "/") != 3 || len(u.Query()) != 2 ||
				u.Query().Get("q") != a || u.Query().Get("r") != b || u.Path != "/v1/"+a+"/x"+b || a == "." || a == ".." || a == "" {
				t.Fatalf("%q and %q made %q, %v", a, b, address, err)
			}
		}
		if address, err = filled(t, "{{env.HOST}}/{{ start.a }}", nil, values); err == nil {
			u, err := url.Parse(address)
			owner, _ := url.Parse(host + "/")
			if err != nil || owner == nil || u.Host != owner.Host || u.Scheme != owner.Scheme || u.Host == "" {
				t.Fatalf("%q and the host %q made %q, %v", a, host, address, err)
			}
		}
	})
}
