package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// eachSource calls visit for the Go files of the repository for which keep returns true.
func eachSource(t *testing.T, keep func(path string) bool, visit func(path string, source []byte)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", "..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || !keep(path) {
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil {
			visit(path, source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAB10EveryParserOfUntrustedInputIsFuzzed(t *testing.T) {
	fuzzed := map[string]string{
		"the signed message":  `internal/secret/signature/.*Fuzz`,
		"strict JSON":         `internal/kit/strictjson/.*Fuzz`,
		"request URLs":        `internal/web/protocol/.*FuzzTarget`,
		"request headers":     `internal/web/protocol/.*Fuzz\w*Header`,
		"the stream's frames": `internal/platform/sse/.*Fuzz`,
		"callback addresses":  `internal/platform/egress/.*Fuzz\w*URL`,
		"callback headers":    `internal/platform/egress/.*Fuzz\w*Header`,
		"definitions":         `internal/component/graph/.*FuzzCompile`,
		"expressions":         `internal/component/expression/.*Fuzz`,
		"contract interfaces": `internal/component/modules/evm/.*FuzzInterfaces`,
		"contract arguments":  `internal/component/modules/evm/.*FuzzArguments`,
		"contract results":    `internal/component/modules/evm/.*FuzzDecodedResults`,
		"logs of chains":      `internal/component/modules/evm/.*FuzzLogs`,
		"unsigned payments":   `internal/component/modules/evm/.*FuzzSerializedTransactions`,
		"signatures":          `internal/component/modules/evm/.*FuzzSignatures`,
		"responses of nodes":  `internal/component/modules/evm/.*FuzzAnswer`,
		"logs of nodes":       `internal/component/modules/evm/.*FuzzLogsAnswer`,
		"blocks of nodes":     `internal/component/modules/evm/.*FuzzBlockAnswer`,
		"payments of nodes":   `internal/component/modules/evm/.*FuzzTransactionAnswer`,
		"receipts of nodes":   `internal/component/modules/evm/.*FuzzReceiptAnswer`,
		"names of chains":     `internal/component/modules/evm/.*FuzzENSNames`,
		"name resolvers":      `internal/component/modules/evm/.*FuzzENSAnswer`,
		"signed payments":     `internal/component/modules/evm/.*FuzzTransactionsToSend`,
		"typed data":          `internal/component/modules/evm/.*FuzzTypedData`,
		"encodings":           `internal/component/modules/utility/.*FuzzDecode`,
		"JSON in strings":     `internal/component/modules/utility/.*FuzzJSONParse`,
		"dates":               `internal/component/modules/utility/.*FuzzFormatDate`,
		"patterns":            `internal/component/modules/utility/.*FuzzRegexMatch`,
		"encrypted files":     `internal/component/modules/utility/.*FuzzAgeDecrypt`,
	}
	var all strings.Builder
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)`)
	eachSource(t, func(path string) bool { return strings.HasSuffix(path, "_test.go") }, func(path string, source []byte) {
		for _, match := range target.FindAllSubmatch(source, -1) {
			all.WriteString(path + " " + string(match[1]) + "\n")
		}
	})
	for what, pattern := range fuzzed {
		if !regexp.MustCompile(pattern).MatchString(all.String()) {
			t.Errorf("%s: no fuzz target matches %s", what, pattern)
		}
	}
}

// A client can keep a connection open forever if the server has no deadline for headers. The
// servers that net/http starts itself have none (gosec G112, G114).
func TestAB14EveryHTTPServerHasDeadlines(t *testing.T) {
	production := func(path string) bool { return !strings.HasSuffix(path, "_test.go") }
	eachSource(t, production, func(path string, source []byte) {
		file, err := parser.ParseFile(token.NewFileSet(), path, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.CompositeLit:
				if isSelector(n.Type, "http", "Server") && !strings.Contains(string(source[n.Pos()-1:n.End()-1]), "ReadHeaderTimeout") {
					t.Errorf("%s: http.Server without ReadHeaderTimeout", path)
				}
			case *ast.CallExpr:
				for _, name := range []string{"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"} {
					if isSelector(n.Fun, "http", name) {
						t.Errorf("%s: http.%s sets no deadline", path, name)
					}
				}
			}
			return true
		})
	})
}

func isSelector(node ast.Expr, pkg, name string) bool {
	selector, ok := node.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	left, ok := selector.X.(*ast.Ident)
	return ok && left.Name == pkg
}
