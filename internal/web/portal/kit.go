package portal

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/clients"
	"github.com/weft-automation/weft/conformance/signers"
)

// kitFile is a signer, or a file of a client.
type kitFile struct {
	Language, Name string
	Needs          string // requirements of a signer
}

// signerFiles are the signers, in the order in which pages list them.
var signerFiles = []kitFile{
	{"Python", "weft_signer.py", "Python 3.9 or later. It uses `cryptography` or PyNaCl if installed, otherwise its own implementation"},
	{"TypeScript", "weft_signer.ts", "Node 20 or later, or a browser"},
	{"Go", "weft_signer.go", "Go 1.21 or later"},
	{"Java", "WeftSigner.java", "Java 17 or later"},
	{"Shell", "weft_curl.sh", "`openssl` and `curl`"},
}

// clientFolder lists the files to copy for a language.
type clientFolder struct {
	Language, Name string
	Files          []string // the signer first
}

// clientFolders returns the folders of all languages.
func clientFolders() ([]clientFolder, error) {
	var all []clientFolder
	for _, one := range clients.Languages {
		i := slices.IndexFunc(signerFiles, func(f kitFile) bool { return f.Name == one.Signer })
		if i < 0 {
			return nil, fmt.Errorf("signerFiles has no entry for %s, the signer of the %s client", one.Signer, one.Name)
		}
		all = append(all, clientFolder{signerFiles[i].Language, one.Name, append([]string{one.Signer}, one.Files...)})
	}
	return all, nil
}

// mountKit serves the files that users copy: the signing vectors, the signers, and a folder per
// language with its client and signer.
func mountKit(mux *http.ServeMux) {
	mux.Handle("GET /docs/signing-vectors.json", newDocument(jsonType, func() ([]byte, error) { return signers.Vectors, nil }))
	for _, folder := range []string{"/docs/signers", "/docs/clients"} {
		mux.Handle("GET "+folder+"/{$}", http.RedirectHandler(folder, http.StatusMovedPermanently))
	}
	for _, name := range signers.Names {
		mux.Handle("GET /docs/signers/"+name, newCopy(signers.Files, name))
	}
	for _, language := range clients.Languages {
		folder := "GET /docs/clients/" + language.Name + "/"
		mux.Handle(folder+"{$}", http.RedirectHandler("/docs/clients#"+language.Name, http.StatusMovedPermanently))
		mux.Handle(folder+language.Signer, newCopy(signers.Files, language.Signer))
		for _, name := range language.Files {
			mux.Handle(folder+name, newCopy(clients.Files, language.Name+"/"+name))
		}
	}
}

// newCopy serves a file to copy as plain text, so that browsers show it and never run it.
func newCopy(from embed.FS, name string) *document {
	return newDocument(textType, func() ([]byte, error) { return from.ReadFile(name) })
}

// copied returns the content of a file to copy, for a page. The file is the tested one.
func copied(name string) (string, error) {
	text, err := signers.Files.ReadFile(name)
	for _, language := range clients.Languages {
		if slices.Contains(language.Files, name) {
			text, err = clients.Files.ReadFile(language.Name + "/" + name)
		}
	}
	return string(bytes.TrimRight(text, "\n")), err
}

// vectors are the signing test vectors that a guide shows.
type vectors struct {
	APISecret string
	PublicKey string
	Requests  []vector
}

type vector struct {
	Name, Why, Method, Path, Timestamp, Body, MessageSha256, Signature string
}

// Message returns the signed message.
func (v vector) Message() string {
	body := v.Body
	if body == "" {
		body = "{}"
	}
	return v.Method + "|" + v.Path + "|" + v.Timestamp + "|" + body
}

// Short returns the message, truncated if long.
func (v vector) Short() string {
	const most = 90
	message := []rune(strings.ReplaceAll(v.Message(), "\n", `\n`))
	if len(message) > most {
		return string(message[:most]) + "…"
	}
	return string(message)
}

// notable names the vectors that a guide shows: the cases in which signers differ.
var notable = []string{
	"get", "post without a body", "query", "query in another order", "query beyond ASCII", "letters beyond ASCII", "letters beyond ASCII, escaped",
	"HTML, escaped", "floats", "large integers", "order of keys", "white space",
}

// Notable returns the vectors that a guide shows. It returns an error if one is missing.
func (v vectors) Notable() ([]vector, error) {
	var all []vector
	for _, name := range notable {
		one, err := v.Of(name)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Of returns the vector with this name.
func (v vectors) Of(name string) (vector, error) {
	for _, one := range v.Requests {
		if one.Name == name {
			return one, nil
		}
	}
	return vector{}, fmt.Errorf("unknown vector %q", name)
}

func readVectors() (vectors, error) {
	var v vectors
	err := json.Unmarshal(signers.Vectors, &v)
	return v, err
}
