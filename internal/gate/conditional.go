package gate

import "strings"

// NoneMatch reports whether an If-None-Match names no entity tag that equals tag by weak
// comparison (RFC 9110, sections 8.8.3.2 and 13.1.2). "*" names every tag. An empty value
// names none.
func NoneMatch(value, tag string) bool {
	if strings.TrimSpace(value) == "*" {
		return false
	}
	for listed := range strings.SplitSeq(value, ",") {
		if strings.TrimPrefix(strings.TrimSpace(listed), "W/") == tag {
			return false
		}
	}
	return true
}
