package apicall

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
)

// wantSelected checks the selected values in the details of an error.
func wantSelected(t *testing.T, failed *component.Error, want object) {
	t.Helper()
	var details struct{ Selected object }
	if failed == nil || json.Unmarshal(failed.Details, &details) != nil || !reflect.DeepEqual(details.Selected, want) {
		t.Errorf("%v: details %.300s; want the selected values %v", failed, failed.Details, want)
	}
}

func TestAReadableValueIsKeptNextToOneThatIsNot(t *testing.T) {
	data := func(rest string) string { return `{"id":7,"state":"paid","parts":[1.50,null,"a"],` + rest + `}` }
	kept := object{"id": 7.0, "parts": []any{1.5, nil, "a"}}
	for name, c := range map[string]struct {
		body string
		path string
		want object
	}{
		"too large":     {data(`"odd":"` + strings.Repeat("a", 1<<20) + `"`), "odd", kept},
		"text":          {loginPage, "odd", nil},
		"whole":         {data(`"odd":"\ud83d"`), "$", kept},
		"long string":   {`{"id":7,"parts":"` + strings.Repeat("a", component.MaxMessage+1) + `","odd":"\ud83d"}`, "odd", object{"id": 7.0}},
		"control":       {`{"id":7,"parts":"a\tb","odd":"\ud83d"}`, "odd", object{"id": 7.0}},
		"much":          {`{"id":7,"parts":["` + strings.Repeat(strings.Repeat("a", 1000)+`","`, 9) + `"],"odd":"\ud83d"}`, "odd", object{"id": 7.0}},
		"deep":          {`{"id":7,"parts":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `,"odd":"\ud83d"}`, "odd", object{"id": 7.0}},
		"nothing there": {`{"id":7,"odd":"\ud83d"}`, "odd", object{"id": 7.0, "parts": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			call := answered(t, func(w http.ResponseWriter) { io.WriteString(w, c.body) })
			_, failed, requests := call("POST", object{"id": "id", "odd": c.path, "parts": "parts"})
			wantSelected(t, failed, c.want)
			if requests != 1 {
				t.Errorf("%d requests", requests)
			}
		})
	}
	for name, c := range unstorable {
		t.Run(name, func(t *testing.T) {
			call := answered(t, func(w http.ResponseWriter) { io.WriteString(w, data(`"odd":`+c.value)) })
			_, failed, _ := call("PATCH", object{"a": "odd", "id": "id", "parts": "parts"})
			wantUnusable(t, failed, component.CodeUpstream, "/a")
			wantSelected(t, failed, kept)
		})
	}
}

func TestHeadersAreKeptOfABodyThatCannotBeRead(t *testing.T) {
	mapping := object{"id": "id", "payment": "headers.Payment-Id", "code": "status"}
	for name, answer := range map[string]func(http.ResponseWriter){
		"not JSON": func(w http.ResponseWriter) { io.WriteString(w, loginPage) },
		"cut off": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"id":7}`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"too large": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", strconv.Itoa(6<<20))
			io.WriteString(w, "[")
		},
		"another coding": func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "br"); io.WriteString(w, "\x0b\x02") },
		"too large in UTF-8": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/plain; charset=windows-1252")
			io.WriteString(w, strings.Repeat("\xe9", 3<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			call := answered(t, func(w http.ResponseWriter) {
				w.Header().Set("Payment-Id", "p1")
				answer(w)
			})
			_, failed, _ := call("POST", mapping)
			wantSelected(t, failed, object{"payment": "p1", "code": 200.0})
		})
	}
}
