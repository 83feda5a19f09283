package clients_test

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/clients"
	"github.com/weft-automation/weft/conformance/signers"
)

// Users must be able to read the files that they copy, so the readers of streams and the verifiers
// of callbacks have fewer than 150 lines.
func TestClientsAreShort(t *testing.T) {
	for _, language := range clients.Languages {
		if !slices.Contains(signers.Names, language.Signer) {
			t.Errorf("%s has no signer", language.Name)
		}
		for _, name := range language.Files {
			text, err := clients.Files.ReadFile(path.Join(language.Name, name))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(name, ".gen.") {
				continue
			}
			limit := 260
			if lower := strings.ToLower(name); strings.Contains(lower, "stream") || strings.Contains(lower, "callback") {
				limit = 150
			}
			if lines := bytes.Count(text, []byte("\n")); lines < 30 || lines >= limit {
				t.Errorf("%s: %d lines", name, lines)
			}
		}
	}
}

// A file that is not listed would be neither tested nor served.
func TestEveryFileIsListed(t *testing.T) {
	err := fs.WalkDir(clients.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		listed := slices.ContainsFunc(clients.Languages, func(l clients.Language) bool {
			return slices.Contains(l.Files, strings.TrimPrefix(name, l.Name+"/"))
		})
		if !listed {
			t.Errorf("%s is not listed", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
