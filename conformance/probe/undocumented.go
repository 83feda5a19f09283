package probe

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
)

// ofHTTP lists the headers that a document does not have to describe. Most of these headers frame a
// message, so proxies and net/http set them. Content-Type is described by the content of the
// response.
var ofHTTP = map[string]bool{
	"Connection": true, "Content-Length": true, "Content-Type": true, "Date": true, "Keep-Alive": true,
	"Trailer": true, "Transfer-Encoding": true,
}

// Undocumented lists the statuses, headers and content types of responses that the document
// does not describe, each with its operation.
func (s *Spec) Undocumented() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.undocumented))
}

// note records the undocumented status, headers and content type of a response. If the response is
// an error without an operation, note compares it with the default response. Pages of the docs are not
// operations, so note ignores them.
func (s *Spec) note(operation *Operation, answer Answer) {
	if operation == nil && answer.Status < http.StatusBadRequest {
		return
	}
	name, status := "no operation", fmt.Sprint(answer.Status)
	at := []string{"components", "responses", "Failure"}
	if operation != nil {
		name, at = operation.ID, append(operation.place(), "responses", status)
	}
	described, named := s.at(at)
	if operation != nil && !named {
		at = append(operation.place(), "responses", "default")
		described, _ = s.at(at)
	}
	described = s.resolve(described)
	headers, content := members(members(described)["headers"]), members(members(described)["content"])
	var found []string
	if operation != nil && !named && !slices.Contains(statusesIn(described), answer.Status) {
		found = append(found, "the status")
	}
	for header := range answer.Header {
		if !ofHTTP[header] && !describes(headers, header) {
			found = append(found, "the header "+header)
		}
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if content[kind] == nil && (kind != "" || len(answer.Body) > 0) {
		found = append(found, fmt.Sprintf("the content type %q", kind))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range found {
		s.undocumented[name+" "+status+": "+what] = true
	}
}

var aStatus = regexp.MustCompile(`\b[45][0-9]{2}\b`)

// statusesIn lists the statuses that the description of a response names. The description of
// the default response has to name each status that it covers.
func statusesIn(described any) []int {
	text, _ := members(described)["description"].(string)
	var all []int
	for _, digits := range aStatus.FindAllString(text, -1) {
		status, _ := strconv.Atoi(digits)
		all = append(all, status)
	}
	return all
}

// describes reports whether the headers of an answer have a name, in any case.
func describes(headers map[string]any, name string) bool {
	for described := range headers {
		if http.CanonicalHeaderKey(described) == name {
			return true
		}
	}
	return false
}
