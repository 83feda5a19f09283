package page

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// checkText returns INVALID_INPUT if a value of a form or of the query is not text that PostgreSQL
// can store, as strictjson does for a body of the API.
func checkText(r *http.Request) error {
	_ = r.FormValue("") // parses the form, also a multipart one
	for _, values := range r.Form {
		for _, value := range values {
			if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
				return fault.New(fault.InvalidInput, "A value is not text in UTF-8, or has the character NUL.")
			}
		}
	}
	return nil
}
