package portal

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/weft-automation/weft/conformance/signers"
)

// mountSigning serves the signing kit: the vectors, and the signers to copy.
func mountSigning(mux *http.ServeMux) {
	mux.HandleFunc("GET /docs/signing-vectors.json", func(w http.ResponseWriter, _ *http.Request) {
		write(w, "application/json", "no-cache", signers.Vectors)
	})
	for _, name := range signers.Names {
		mux.HandleFunc("GET /docs/signers/"+name, serveFile(func() ([]byte, error) { return signers.Files.ReadFile(name) }))
	}
}

// vectors are what a guide shows of the signing kit.
type vectors struct {
	APISecret string
	PublicKey string
	Requests  []vector
}

type vector struct {
	Name, Why, Method, Path, Timestamp, Body, MessageSha256, Signature string
}

// Message is what is signed.
func (v vector) Message() string {
	body := v.Body
	if body == "" {
		body = "{}"
	}
	return v.Method + "|" + v.Path + "|" + v.Timestamp + "|" + body
}

// Short is the message without the end of a long one.
func (v vector) Short() string {
	const most = 90
	message := []rune(strings.ReplaceAll(v.Message(), "\n", `\n`))
	if len(message) > most {
		return string(message[:most]) + "…"
	}
	return string(message)
}

// telling are the vectors that a guide shows: where signers differ.
var telling = []string{
	"get", "post without a body", "query", "query in another order", "query beyond ASCII", "letters beyond ASCII", "letters beyond ASCII, escaped",
	"HTML, escaped", "floats", "large integers", "order of keys", "white space",
}

// Telling are those.
func (v vectors) Telling() ([]vector, error) {
	var all []vector
	for _, name := range telling {
		one, err := v.Of(name)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Of is the request of that name.
func (v vectors) Of(name string) (vector, error) {
	for _, one := range v.Requests {
		if one.Name == name {
			return one, nil
		}
	}
	return vector{}, fmt.Errorf("there is no vector %s", name)
}

func readVectors() (vectors, error) {
	var v vectors
	err := json.Unmarshal(signers.Vectors, &v)
	return v, err
}
