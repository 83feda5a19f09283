package conformance

import (
	"net/http"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
)

// answerCases provoke the responses that the document has for operations of every kind.
var answerCases = []Case{
	{Part: "D3.table, D1.1.strict, D1.8.open", Name: "answers/400, 406, 413, 415 the form of open requests", Run: openForm},
	{
		Part: "D1.1.strict", Name: "answers/200 every operation under handling=strict", Run: strictlyAnswered,
		Needs: []probe.Need{probe.NeedWorkspace, probe.NeedNear, probe.NeedOwner},
	},
}

// strict is the header that makes unknown fields and query parameters errors.
func strict() http.Header { return http.Header{"Prefer": {"handling=strict"}} }

// refuseForm sends requests that every operation must reject. They have an unknown query parameter
// under handling=strict, a malformed body, a body of a different type, a body that is too large, or
// an Accept header that allows no media type.
func refuseForm(t *probe.Trial, request probe.Request) {
	send := func(query string, body []byte, header http.Header) probe.Answer {
		changed := request
		changed.Path, changed.Body, changed.Header = request.Path+query, body, header
		return t.Do(changed)
	}
	separator := "?"
	if strings.Contains(request.Path, "?") {
		separator = "&"
	}
	unknown := t.Problem(send(separator+"unheard=1", request.Body, strict()), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(unknown)[:1], []string{"/query/unheard"})
	t.Problem(send("", []byte(`{"a":`), nil), http.StatusBadRequest, "INVALID_INPUT")
	t.Problem(send("", []byte("{}"), http.Header{"Content-Type": {"text/plain"}}), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	t.Problem(send("", make([]byte, 1<<20+1), nil), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	t.Problem(send("", request.Body, http.Header{"Accept": {"image/png"}}), http.StatusNotAcceptable, "NOT_ACCEPTABLE")
}

// openReads lists the requests without a body that require no authentication.
func openReads(t *probe.Trial) []probe.Request {
	var list []probe.Request
	for _, operation := range t.Target().Spec.Operations() {
		if operation.Method == http.MethodGet && !operation.Signed() && !operation.Person() {
			request := probe.Request{Path: concrete(operation.Template), Unsigned: true}
			if operation.ID == "challengeHook" { // the only one with required parameters
				request = challenging(request.Path, verifyToken, "1")
			}
			list = append(list, request)
		}
	}
	return list
}

func openForm(t *probe.Trial) {
	for _, request := range openReads(t) {
		refuseForm(t, request)
	}
}

// strictlyAnswered sends handling=strict to every operation. The trial checks
// Preference-Applied.
func strictlyAnswered(t *probe.Trial) {
	t.HandleStrictly()
	askEverything(t)
}
