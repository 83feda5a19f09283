package portal

import (
	"net/http"

	"github.com/weft-automation/weft/conformance/clients"
	"github.com/weft-automation/weft/conformance/signers"
)

// mountClients serves the clients to copy, each language's with its signer as one folder.
func mountClients(mux *http.ServeMux) {
	for _, language := range clients.Languages {
		folder := "GET /docs/clients/" + language.Name + "/"
		for _, name := range language.Files {
			mux.HandleFunc(folder+name, serveFile(func() ([]byte, error) { return clients.Files.ReadFile(language.Name + "/" + name) }))
		}
		mux.HandleFunc(folder+language.Signer, serveFile(func() ([]byte, error) { return signers.Files.ReadFile(language.Signer) }))
	}
}

// serveFile sends a file that users copy as text, which a browser shows and never runs.
func serveFile(read func() ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := read()
		if err != nil {
			http.Error(w, "the file cannot be read", http.StatusInternalServerError)
			return
		}
		write(w, "text/plain; charset=utf-8", "no-cache", text)
	}
}
