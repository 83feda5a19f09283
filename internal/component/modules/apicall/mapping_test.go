package apicall

import (
	"io"
	"net/http"
	"testing"

	"github.com/weft-automation/weft/internal/component"
)

const loginPage = "<!DOCTYPE html><title>Sign in</title>"

func TestAMappingNeverSelectsNullFromABodyThatIsNotJSON(t *testing.T) {
	for name, c := range map[string]struct{ contentType, answer, path, want string }{
		"text":            {"text/plain", `{"data":{"price":"1.50"}}`, "data.price", "1.50"},
		"text, all":       {"text/plain", `{"price":"1.50"}`, "$.price", "1.50"},
		"Amazon":          {"application/x-amz-json-1.0", `{"data":{"price":"1.50"}}`, "data.price", "1.50"},
		"script":          {"text/javascript", `{"data":{"price":"1.50"}}`, "body.data.price", "1.50"},
		"no type":         {"", `{"data":{"price":"1.50"}}`, "data.price", "1.50"},
		"broken type":     {"x;;=", `{"data":{"price":"1.50"}}`, "data.price", "1.50"},
		"byte order mark": {"text/html", "\xef\xbb\xbf{\"data\":{\"price\":\"1.50\"}}", "data.price", "1.50"},
		"login page":      {"text/html", loginPage, "data.price", ""},
		"declared JSON":   {"application/json", loginPage, "data.price", ""},
		"binary":          {"image/png", "\x89PNG\x00\xff", "data.price", ""},
		"two values":      {"application/json", `{"data":{"price":"1.50"}} {}`, "data.price", ""},
		"cut short":       {"", `{"data":{"price":"1.5`, "data.price", ""},
		"empty":           {"application/json", "", "data.price", ""},
		"page as text":    {"text/html", loginPage, "body", loginPage},
		"number as text":  {"text/plain", "007", "$", "007"},
		"digits as text":  {"text/plain", "123456", "$", "123456"},
		"status":          {"text/html", loginPage, "headers.content-type", "text/html"},
		"header case":     {"", "", "headers.X-Request-Id", "r1"},
		"header case 2":   {"application/json", `{}`, `headers["x-REQUEST-id"]`, "r1"},
	} {
		t.Run(name, func(t *testing.T) {
			call := answered(t, func(w http.ResponseWriter) {
				w.Header()["Content-Type"] = nil
				if c.contentType != "" {
					w.Header().Set("Content-Type", c.contentType)
				}
				w.Header().Set("X-Request-ID", "r1")
				io.WriteString(w, c.answer)
			})
			output, failed, _ := call("POST", object{"price": c.path})
			if c.want == "" {
				wantUnusable(t, failed, component.CodeUpstream, "outputMapping price")
			} else if failed != nil || output["price"] != c.want {
				t.Errorf("got %v, %v; want %s", output["price"], failed, c.want)
			}
		})
	}
}

func TestAStatusWithoutContentHasNoValues(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusResetContent, http.StatusNotModified} {
		call := answered(t, func(w http.ResponseWriter) { w.WriteHeader(status) })
		output, failed, _ := call("PUT", object{"id": "data.id"})
		if id, ok := output["id"]; failed != nil || !ok || id != nil {
			t.Errorf("%d: %v, %v", status, output, failed)
		}
	}
}
