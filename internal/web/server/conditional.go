package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// tagged is an answer that has an ETag.
type tagged struct {
	tag         string
	ifNoneMatch string // of the request; "" for none
}

// newTagged returns the answer that has the tag.
func newTagged(tag string, ifNoneMatch *api.IfNoneMatch) tagged {
	return tagged{tag: tag, ifNoneMatch: value(ifNoneMatch)}
}

// unchanged sets the ETag. It answers 304 and returns true if the client has what the tag
// names.
func (t tagged) unchanged(w http.ResponseWriter) bool {
	w.Header().Set("ETag", t.tag)
	if !protocol.Matches(t.ifNoneMatch, t.tag) {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// tagOf returns the ETag of a text.
func tagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}
