package protocol

import (
	"bytes"
	"compress/gzip"
	"strings"
)

// AcceptsGzip reports whether an Accept-Encoding header allows gzip, by name or by "*" (RFC 9110,
// 12.5.3). Without the header, AcceptsGzip returns false.
func AcceptsGzip(header []string) bool {
	others := 0.0
	for entry := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, rest, _ := strings.Cut(entry, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			return quality(rest) > 0
		case "*":
			others = quality(rest)
		}
	}
	return others > 0
}

// Gzip returns the text, compressed. Use it only for documents that are the same for all callers.
// The length of a compressed response for one caller could reveal secrets in it (the BREACH
// attack).
func Gzip(text []byte) []byte {
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	_, _ = to.Write(text) // a bytes.Buffer returns no errors
	_ = to.Close()
	return bytes.Clone(packed.Bytes())
}
