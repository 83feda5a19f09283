package gen

import (
	"bytes"
	"context"
	"encoding/json"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// object is a JSON object.
type object = map[string]any

// tool runs one of the pinned generators.
func tool(ctx context.Context, arguments ...string) ([]byte, error) {
	return exec.CommandContext(ctx, "go", append([]string{"tool", "-modfile=../internal/tools/go.mod"}, arguments...)...).CombinedOutput()
}

// The clients that are generated from both editions, of all operations, differ in comments
// only. 3.0 has no webhooks, so those of 3.1 are left out.
func TestBothEditionsMakeTheSameClient(t *testing.T) {
	var clients [2][]byte
	for i, document := range []string{"../openapi.yaml", "api/openapi-3.0.json"} {
		clients[i] = generatedClient(t, document)
	}
	if !bytes.Equal(clients[0], clients[1]) {
		t.Errorf("the clients differ, from byte %d on: %s", differs(clients[0], clients[1]), around(clients[0], clients[1]))
	}
	if len(clients[0]) < 500_000 {
		t.Errorf("the client has %d bytes", len(clients[0]))
	}
}

// generatedClient is the Go client of a document, without comments.
func generatedClient(t *testing.T, document string) []byte {
	t.Helper()
	ctx := waittest.Context(t)
	folder := t.TempDir()
	write := func(name string, value any) string {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	webhooks := write("overlay.json", object{
		"overlay": "1.0.0", "info": object{"title": "Without webhooks", "version": "1.0.0"},
		"actions": []object{{"target": "$['webhooks','x-webhooks']", "remove": true}},
	})
	source := filepath.Join(folder, "client.go")
	output, err := tool(ctx, "oapi-codegen", "-o", source, "-config", write("client.json", object{
		"package": "client", "generate": object{"models": true, "client": true},
		"output-options": object{"name-normalizer": "ToCamelCaseWithInitialisms", "skip-prune": true, "overlay": object{"path": webhooks}},
		"compatibility":  object{"always-prefix-enum-values": true},
	}), document)
	if err != nil {
		t.Fatalf("%s: %v: %s", document, err, output)
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, source, nil, parser.SkipObjectResolution) // without comments
	if err != nil {
		t.Fatal(err)
	}
	var code bytes.Buffer
	if err := format.Node(&code, set, tree); err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(code.Bytes(), []byte("\n\n"), []byte("\n"))
}

// differs is the place of the first byte that two texts do not share.
func differs(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func around(a, b []byte) string {
	at := differs(a, b)
	cut := func(text []byte) string { return string(text[max(0, at-200):min(len(text), at+200)]) }
	return cut(a) + "\n---\n" + cut(b)
}
