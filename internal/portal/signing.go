package portal

import (
	"net/http"

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
