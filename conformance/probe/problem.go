package probe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/weft-automation/weft/gen/api"
)

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]+$`) // of at most 128

// statuses is the table of decisions 3.
var statuses = map[int][]string{
	http.StatusBadRequest:                  {"INVALID_INPUT"},
	http.StatusUnauthorized:                {"UNAUTHORIZED"},
	http.StatusPaymentRequired:             {"INSUFFICIENT_CREDITS"},
	http.StatusForbidden:                   {"FORBIDDEN"},
	http.StatusNotFound:                    {"NOT_FOUND"},
	http.StatusMethodNotAllowed:            {"METHOD_NOT_ALLOWED"},
	http.StatusNotAcceptable:               {"NOT_ACCEPTABLE"},
	http.StatusConflict:                    {"NO_CALLBACK", "EXECUTION_NOT_FINISHED", "IDEMPOTENCY_MISMATCH", "IDEMPOTENCY_IN_FLIGHT", "CONFLICT"},
	http.StatusPreconditionFailed:          {"PRECONDITION_FAILED"},
	http.StatusRequestEntityTooLarge:       {"PAYLOAD_TOO_LARGE"},
	http.StatusRequestURITooLong:           {"URI_TOO_LONG"},
	http.StatusUnsupportedMediaType:        {"UNSUPPORTED_MEDIA_TYPE"},
	http.StatusUnprocessableEntity:         {"INVALID_INPUT"},
	http.StatusTooManyRequests:             {"RATE_LIMITED"},
	http.StatusRequestHeaderFieldsTooLarge: {"PAYLOAD_TOO_LARGE"},
	http.StatusInternalServerError:         {"INTERNAL_ERROR"},
	http.StatusServiceUnavailable:          {"UNAVAILABLE"},
}

// inside are traces of the inside that no failure may show (AB-12).
var inside = []string{"goroutine ", ".go:", "runtime error", "SELECT ", "INSERT ", "pgx", "SQLSTATE", "river_", "/internal/"}

// checkProblem holds what the document cannot say of a failure: that its
// members agree with each other and with the headers.
func checkProblem(answer Answer) error {
	var p api.Problem
	if err := json.Unmarshal(answer.Body, &p); err != nil {
		return err
	}
	switch {
	case int(p.Status) != answer.Status:
		return fmt.Errorf("status %d in an answer %d", p.Status, answer.Status)
	case p.Error != p.Code:
		return fmt.Errorf("error %q is not code %q", p.Error, p.Code)
	case p.Message != p.Detail || p.Detail == "":
		return fmt.Errorf("message %q is not detail %q", p.Message, p.Detail)
	case p.Title == "" || p.Type == "" || p.Instance == "":
		return fmt.Errorf("title, type or instance is empty: %s", answer.Body)
	case p.RequestID != answer.Header.Get("X-Request-Id"):
		return fmt.Errorf("requestId %q is not X-Request-Id %q", p.RequestID, answer.Header.Get("X-Request-Id"))
	}
	return nil
}

// checkCode says whether a failure has a code that its status does not have.
func checkCode(answer Answer) error {
	var p api.Problem
	if json.Unmarshal(answer.Body, &p) == nil && !slices.Contains(statuses[answer.Status], string(p.Code)) {
		return fmt.Errorf("code %q in an answer %d", p.Code, answer.Status)
	}
	return nil
}

// checkClosed says what a failure shows of the inside.
func checkClosed(answer Answer) error {
	for _, trace := range inside {
		if strings.Contains(string(answer.Body), trace) {
			return fmt.Errorf("the answer shows %q: %s", trace, answer.Body)
		}
	}
	return nil
}

// Problem reads a failure; another status or code ends the case. It comes with
// the answer checked already. The contract names two statuses; where it names none, a
// lenient target may refuse with another.
func (t *Trial) Problem(answer Answer, status int, code string) api.Problem {
	var p api.Problem
	if answer.Status != status {
		err := fmt.Errorf("%s: got %d, want %d: %.500s", answer.Operation, answer.Status, status, answer.Body)
		named := status == http.StatusForbidden || status == http.StatusTooManyRequests
		if !named && answer.Status >= http.StatusBadRequest && answer.Status < http.StatusInternalServerError {
			err = t.differs("D3.table", err)
		}
		t.NoError("refusal", err)
	}
	t.NoError("problem", t.departs("D3.form", json.Unmarshal(answer.Body, &p)))
	if string(p.Code) != code {
		t.NoError("code", t.differs("D3.table", fmt.Errorf("%s: got %s, want %s: %s", answer.Operation, p.Code, code, answer.Body)))
	}
	return p
}

// Pointers lists where a failure says that the faults are.
func Pointers(p api.Problem) []string {
	list := make([]string, len(p.Errors))
	for i, fault := range p.Errors {
		list[i] = fault.Pointer
	}
	return list
}

// Reason is the finer cause of a failure, "" if it gives none.
func Reason(p api.Problem) string {
	if p.Reason == nil {
		return ""
	}
	return *p.Reason
}
