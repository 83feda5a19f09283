package probe

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
)

// The names that AddUnknown adds, and how a response has to report them.
const (
	unknownParameter, reportedParameter = "unknownParameter=1", `"unknownParameter"`
	unknownField, reportedField         = `"unknownField":1`, `"/unknownField"`
)

// AddUnknown adds an unknown query parameter to every later request of Do, and an unknown
// field to every JSON body. A successful response that does not report them in Weft-Ignored
// fails the case. Requests with a Prefer header stay unchanged.
func (t *Trial) AddUnknown() { t.unknown = map[string]bool{} }

// Reported reports whether the operation has reported what AddUnknown adds.
func (t *Trial) Reported(operation string) bool { return t.unknown[operation] }

// withUnknown returns the request with the unknown parameter and field of AddUnknown, and the
// value of Weft-Ignored that its response must have. The value is "" if nothing is added.
func (t *Trial) withUnknown(r Request) (changed Request, reported string) {
	if t.unknown == nil || r.Header.Get("Prefer") != "" {
		return r, ""
	}
	operation := t.target.Spec.Find(cmp.Or(r.Method, http.MethodGet), r.Path)
	if operation == nil || operation.AnyQuery() {
		return r, ""
	}
	separator := "?"
	if strings.Contains(r.Path, "?") {
		separator = "&"
	}
	r.Path += separator + unknownParameter
	if !operation.takesJSON() || !bytes.HasPrefix(r.Body, []byte("{")) {
		return r, reportedParameter
	}
	field := unknownField
	if !bytes.Equal(r.Body, []byte("{}")) {
		field += ","
	}
	r.Body = append([]byte("{"+field), r.Body[1:]...)
	return r, reportedParameter + ", " + reportedField
}

// takesJSON reports whether the operation has a JSON body.
func (o *Operation) takesJSON() bool {
	return o.spec.RequestBody != nil && o.spec.RequestBody.Value.Content["application/json"] != nil
}

// checkIgnored returns an error if Weft-Ignored of a successful response is not the reported value.
func (t *Trial) checkIgnored(answer Answer, reported string) error {
	if reported == "" || answer.Status >= http.StatusMultipleChoices {
		return nil
	}
	if got := answer.Header.Get("Weft-Ignored"); got != reported {
		return t.differs("D1.1.reported", fmt.Errorf("%s: Weft-Ignored is %s, want %s", answer.Operation, got, reported))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unknown[answer.Operation] = true
	return nil
}
