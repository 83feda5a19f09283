package protocol

import (
	"net/http"
	"strings"
)

// JoinConditions joins the lines of each If-Match and If-None-Match into one, because several
// lines of a list are one list (RFC 9110, section 5.3).
func JoinConditions(header http.Header) {
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if lines := header[name]; len(lines) > 1 {
			header[name] = []string{strings.Join(lines, ", ")}
		}
	}
}

// DropEmptyEventID removes an empty Last-Event-ID. A client of event streams that has no ID yet may send
// one.
func DropEmptyEventID(header http.Header) {
	if values := header["Last-Event-Id"]; len(values) == 1 && values[0] == "" {
		delete(header, "Last-Event-Id")
	}
}

// Matches reports whether an If-None-Match names an entity tag that equals tag by weak
// comparison (RFC 9110, sections 8.8.3.2 and 13.1.2). "*" names every tag. An empty value
// names none.
func Matches(value, tag string) bool {
	if strings.TrimSpace(value) == "*" {
		return true
	}
	for listed := range strings.SplitSeq(value, ",") {
		if strings.TrimPrefix(strings.TrimSpace(listed), "W/") == tag {
			return true
		}
	}
	return false
}
