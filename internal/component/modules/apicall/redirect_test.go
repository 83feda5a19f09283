package apicall

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
)

func TestEachSetCookieHeaderIsAnItem(t *testing.T) {
	first, second := "sid=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "theme=a, b"
	cookies := []string{first, second}
	call := answered(t, func(w http.ResponseWriter) {
		w.Header()["Set-Cookie"] = cookies
		io.WriteString(w, `{"id":7,"names":["sid"]}`)
	})
	for _, mapping := range []object{nil, {"id": "id"}} {
		output, failed, _ := call("GET", mapping)
		headers, _ := output["headers"].(object)
		if failed != nil || !reflect.DeepEqual(output["setCookies"], []any{first, second}) || headers["set-cookie"] != first+", "+second {
			t.Errorf("%v, %v", output, failed)
		}
	}
	if output, failed, _ := call("GET", object{"setCookies": "names"}); failed != nil || !reflect.DeepEqual(output["setCookies"], []any{"sid"}) {
		t.Errorf("%v, %v; want the mapped value, because saved workflows may map this name", output, failed)
	}
	cookies = []string{"bad=\xff"}
	if output, failed, _ := call("GET", nil); failed != nil || !reflect.DeepEqual(output["setCookies"], []any{"bad=\uFFFD"}) {
		t.Errorf("%v, %v", output, failed)
	}
	cookies = nil
	if output, failed, _ := call("GET", nil); failed != nil || !reflect.DeepEqual(output["setCookies"], []any{}) {
		t.Errorf("%v, %v", output, failed)
	}
}

func TestARedirectIsTheOutputIfItIsNotFollowed(t *testing.T) {
	requests := 0
	bench, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests++; r.URL.Path == "/login" {
			w.Header().Add("Set-Cookie", "sid=1")
			http.Redirect(w, r, "/home", http.StatusFound)
		}
	})
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		for name, c := range map[string]struct {
			config   object
			status   float64 // 0: the call fails
			requests int
		}{
			"default":  {object{}, 200, 2},
			"followed": {object{"followRedirects": true}, 200, 2},
			"stopped":  {object{"followRedirects": false}, 302, 1},
			"expected": {object{"followRedirects": false, "expectStatus": []any{302, 303}}, 302, 1},
			"refused":  {object{"followRedirects": false, "expectStatus": 200}, 0, 1},
		} {
			requests = 0
			c.config["apiUrl"], c.config["method"] = address+"/login", method
			output, failed := run(t, bench, object{}, c.config)
			if requests != c.requests {
				t.Errorf("%s, %s: %d requests", method, name, requests)
			}
			if c.status == 0 {
				if failed == nil || failed.Code != component.CodeUpstream || failed.Retryable || !strings.Contains(string(failed.Details), `"upstreamCode":302`) {
					t.Errorf("%s, %s: %v", method, name, failed)
				}
				continue
			}
			if failed != nil || output["status"] != c.status {
				t.Errorf("%s, %s: %v, %v", method, name, output, failed)
				continue
			}
			headers, _ := output["headers"].(object)
			if c.status == 302 && (headers["location"] != "/home" || !reflect.DeepEqual(output["setCookies"], []any{"sid=1"})) {
				t.Errorf("%s, %s: %v", method, name, output)
			}
		}
	}
}
