package protocol

import (
	"bytes"
	"compress/gzip"
	"strings"
)

// TakesGzip reports whether an Accept-Encoding header takes gzip: by its name, or else by "*"
// (RFC 9110, 12.5.3). Who sends none is not known to unpack anything.
func TakesGzip(header []string) bool {
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

// Gzip is a text compressed. It is for what is sent to many: no answer that is made for one
// caller is, whose length would tell of what it holds.
func Gzip(text []byte) []byte {
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	_, _ = to.Write(text) // into memory
	_ = to.Close()
	return bytes.Clone(packed.Bytes())
}
