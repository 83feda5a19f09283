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

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]+$`) // at most 128 characters

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
	http.StatusInternalServerError:         {"RUN_FAILED", "INTERNAL_ERROR"},
	http.StatusServiceUnavailable:          {"UNAVAILABLE"},
}

// inside lists traces of internals that no error may show (AB-12).
var inside = []string{"goroutine ", ".go:", "runtime error", "SELECT ", "INSERT ", "pgx", "SQLSTATE", "river_", "/internal/"}

// checkProblem checks what the document cannot express: that the fields of an error
// agree with each other and with the headers.
func checkProblem(answer Answer) error {
	var p api.Problem
	if err := json.Unmarshal(answer.Body, &p); err != nil {
		return err
	}
	switch {
	case int(p.Status) != answer.Status:
		return fmt.Errorf("status %d in a response with status %d", p.Status, answer.Status)
	case p.Error != p.Code:
		return fmt.Errorf("error %q is not code %q", p.Error, p.Code)
	case p.Message != p.Detail || p.Detail == "":
		return fmt.Errorf("message %q is not detail %q", p.Message, p.Detail)
	case p.Title == "" || p.Type == "" || p.Instance == "":
		return fmt.Errorf("title, type or instance is empty: %s", answer.Body)
	case p.RequestID != answer.Header.Get("X-Request-Id"):
		return fmt.Errorf("requestId %q is not X-Request-Id %q", p.RequestID, answer.Header.Get("X-Request-Id"))
	case p.Docs != docs(p):
		return fmt.Errorf("docs %q is not %q", p.Docs, docs(p))
	case p.Code == "RUN_FAILED" && p.RunID == nil:
		return fmt.Errorf("a failed run without its ID: %s", answer.Body)
	case (p.ExecutionID != nil || p.RunID != nil && p.Code != "RUN_FAILED") && (p.Reason == nil || *p.Reason != "outcome_unknown"):
		return fmt.Errorf("an ID of what may exist, without outcome_unknown: %s", answer.Body)
	}
	return nil
}

// docs returns the path at which the reason or code of an error is documented.
func docs(p api.Problem) string {
	if p.Reason != nil {
		return "/docs/errors#reason." + *p.Reason
	}
	return "/docs/errors#" + string(p.Code)
}

// checkCode returns an error if the code of an error does not belong to its status.
func checkCode(answer Answer) error {
	var p api.Problem
	if json.Unmarshal(answer.Body, &p) == nil && !slices.Contains(statuses[answer.Status], string(p.Code)) {
		return fmt.Errorf("code %q in a response with status %d", p.Code, answer.Status)
	}
	return nil
}

// checkClosed returns an error if an error reveals internals.
func checkClosed(answer Answer) error {
	for _, trace := range inside {
		if strings.Contains(string(answer.Body), trace) {
			return fmt.Errorf("the response reveals %q: %s", trace, answer.Body)
		}
	}
	return nil
}

// Problem decodes an error and returns it. The case fails if the status or the code differs. The
// contract defines only two of the statuses. A lenient target may use a different status instead of
// each of the other statuses.
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

// Pointers returns the pointers of the errors in a problem.
func Pointers(p api.Problem) []string {
	list := make([]string, len(p.Errors))
	for i, fault := range p.Errors {
		list[i] = fault.Pointer
	}
	return list
}

// Reason returns the reason of a problem, or "" if it has none.
func Reason(p api.Problem) string {
	if p.Reason == nil {
		return ""
	}
	return *p.Reason
}
