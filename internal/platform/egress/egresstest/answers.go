package egresstest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Answer is a response, and what a receiver can read of it.
type Answer struct {
	Name   string
	Status int
	Header http.Header
	Body   []byte // as sent
	Cut    bool   // the connection is closed before the end of the body

	Text    string // the decoded body, unless Fault or Charset is set
	JSON    bool   // Text is JSON
	Charset bool   // the character set isn't supported
	Fault   string // why the body can't be read, or ""
	Limit   string // the limit that an error must name, or ""
}

// ServeHTTP sends the answer.
func (a Answer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = nil // not guessed
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	if a.Cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)+100))
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
	if a.Cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// charsets encode text, which has characters of Latin-1 only.
var charsets = map[string]func(string) []byte{
	"":                      func(text string) []byte { return []byte(text) },
	"; charset=utf-8":       func(text string) []byte { return []byte("\ufeff" + text) },
	"; charset=latin1":      latin1,
	"; charset=utf-16le":    utf16le,
	"; charset=ISO-2022-JP": func(text string) []byte { return []byte(text) },
}

func latin1(text string) (out []byte) {
	for _, r := range text {
		out = append(out, byte(r))
	}
	return out
}

func utf16le(text string) (out []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, unit)
	}
	return out
}

func packed(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body)
	_ = w.Close()
	return out.Bytes()
}

// Answers returns responses of every kind around a document, a JSON object: each status, type, coding,
// character set, size and way to be broken.
func Answers(document string) (all []Answer) {
	for _, status := range []int{200, 404, 503} {
		for _, media := range []string{"application/json", "text/html", "application/x-amz-json-1.0", ""} {
			for charset := range charsets {
				for _, coding := range []string{"", "gzip", "br", "not gzip"} {
					odd := coding == "br" || coding == "not gzip"
					if charset != "" && (media == "" || status != 200) || odd && status != 200 {
						continue // neither changes how the rest is read
					}
					for name, text := range map[string]string{
						"whole": document, "odd": `{"odd":"\ud83d",` + document[1:], "half": document[:len(document)-2], "twice": document + document,
						"page": "<!DOCTYPE html><title>Entr\u00e9e</title>", "empty": "", "cut": document,
					} {
						if odd && text == "" {
							continue
						}
						a := answer(status, media, charset, coding, text)
						a.Name = strings.Join([]string{strconv.Itoa(status), media + charset, coding, name}, ", ")
						if name == "cut" {
							a.Cut, a.Fault = true, "cut off"
						}
						all = append(all, a)
					}
				}
			}
		}
	}
	return append(all, sizes(document)...)
}

func answer(status int, media, charset, coding, text string) Answer {
	a := Answer{Status: status, Header: http.Header{}, Body: charsets[charset](text), Text: text, JSON: json.Valid([]byte(text))}
	if media != "" {
		a.Header.Set("Content-Type", media+charset)
	}
	a.Charset = strings.Contains(charset, "ISO-2022")
	switch coding {
	case "gzip":
		a.Header.Set("Content-Encoding", "gzip")
		a.Body = packed(a.Body)
	case "br", "not gzip":
		a.Header.Set("Content-Encoding", strings.TrimPrefix(coding, "not "))
		a.Fault = coding
	}
	return a
}

// sizes returns answers around the limits of the body and the headers.
func sizes(document string) (all []Answer) {
	for _, coding := range []string{"", "gzip"} {
		for _, megabytes := range []int{2, 6} {
			a := answer(200, "application/json", "", coding, document+strings.Repeat(" ", megabytes<<20))
			a.Name = strconv.Itoa(megabytes) + " MiB " + coding
			if megabytes > 5 {
				a.Fault, a.Limit = "too large", strconv.Itoa(5<<20)
			}
			all = append(all, a)
		}
	}
	for _, kilobytes := range []int{20, 80} {
		a := answer(200, "application/json", "", "", document)
		a.Name = strconv.Itoa(kilobytes) + " KiB of headers"
		for i := range kilobytes {
			a.Header.Set("X-Fill-"+strconv.Itoa(i), strings.Repeat("a", 1000))
		}
		if kilobytes > 64 {
			a.Fault, a.Limit = "headers too large", strconv.Itoa(64<<10)
		}
		all = append(all, a)
	}
	return all
}
