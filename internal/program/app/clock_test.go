package app_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// measures lists the functions ("file:Function"), files and packages of tests that may use the
// clock, each with the reason. An exception that is no longer needed fails the test.
var measures = map[string]string{
	"internal/program/chaos/": "timeouts of single attempts that are repeated, and faults of a given length",

	"conformance/breaker_test.go:meet":                    "limits the wait for an event that never comes, in the soak only",
	"conformance/breakages_callbacks_test.go:comingAgain": "a fault of a given length",
	"conformance/breakages_streams_test.go:late":          "a fault of a given length",
	"conformance/breakages_streams_test.go:hasty":         "a fault of a given length",

	"internal/execution/fairshare_test.go:newBusy":                                                 "a slow component",
	"internal/workflow/run/cancel_test.go:awaitEvents":                                             "returns at the limit without failing anything",
	"internal/web/server/server_test.go:TestSS13StreamsAreExemptFromTheWriteTimeout":               "has to outlast the server's timeout",
	"internal/program/cli/listen_test.go:TestListenBoundsItsConnections":                           "expects nothing to arrive; slowness cannot make it fail",
	"internal/platform/retention/retention_test.go:TestOP11DroppingAWeekIsQuickAndLeavesTheLedger": "measures over a time; only the soak compares",

	"internal/component/modules/evm/hostile_test.go:run":                                      "the component's deadline is the input",
	"internal/component/modules/utility/regex_match_test.go:TestRegexMatchStopsAtItsDeadline": "the component's deadline is the input",
	"internal/platform/postgres/uptodate_test.go:TestMigrateDoesNotWaitIfNothingIsToDo":       "only a deadline ends a wait for a lock that is never released",
}

// clockCalls are calls that wait for a time or set a deadline.
var clockCalls = map[string][]string{
	"time":    {"After", "AfterFunc", "NewTimer", "Tick"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
}

// A test that depends on the clock fails on a slow machine. Tests wait for events with
// internal/kit/waittest, whose only time limit is the timeout of go test. They assert times under
// testing/synctest, by the database's clock or by counting events. Only the benchmark and the soak
// measure latencies.
func TestTestsNeitherSleepNorJudgeByTheClock(t *testing.T) {
	used := map[string]bool{}
	for _, file := range sources(t) {
		if !file.test() || slices.ContainsFunc(file.tree.Imports, func(spec *ast.ImportSpec) bool {
			return spec.Path.Value == `"testing/synctest"`
		}) {
			continue
		}
		for _, declared := range file.tree.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			for _, found := range judgements(function) {
				excused := false
				for _, name := range []string{file.path + ":" + function.Name.Name, file.path, file.path[:strings.LastIndex(file.path, "/")+1]} {
					if measures[name] != "" {
						used[name], excused = true, true
					}
				}
				if !excused {
					t.Errorf("%s: %s: use internal/kit/waittest, testing/synctest or counted events", file.set.Position(found.at), found.what)
				}
			}
		}
	}
	for name, why := range measures {
		if !used[name] {
			t.Errorf("%s does not use the clock: remove its exception (%q)", name, why)
		}
	}
}

// A test that only the soak runs names the tests of `make test` that cover its rule.
func TestEverySoakTestNamesTheTestsThatCoverIt(t *testing.T) {
	all := sources(t)
	tests, left := map[string]bool{}, map[string]bool{}
	for _, file := range all {
		folder := filepath.Dir(file.path)
		for _, declared := range file.tree.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && file.test() {
				name := folder + "." + function.Name.Name
				tests[name] = true
				left[name] = mentions(function, "waittest", "LeftToSoak")
			}
		}
	}
	for _, file := range all {
		ast.Inspect(file.tree, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || !isCall(call, "waittest", "LeftToSoak") {
				return true
			}
			if len(call.Args) < 2 {
				t.Errorf("%s: LeftToSoak names no test", file.set.Position(call.Pos()))
			}
			for _, arg := range call.Args[1:] {
				literal, ok := arg.(*ast.BasicLit)
				if !ok {
					t.Errorf("%s: pass the test's name as a string literal", file.set.Position(arg.Pos()))
					continue
				}
				if name, err := strconv.Unquote(literal.Value); err != nil || !tests[name] || left[name] {
					t.Errorf("%s: make test does not run %s", file.set.Position(arg.Pos()), name)
				}
			}
			return true
		})
	}
}

// judgement is a place where a function uses the clock.
type judgement struct {
	at   token.Pos
	what string
}

func judgements(function *ast.FuncDecl) (all []judgement) {
	elapsed := map[string]bool{} // variables that hold elapsed time
	ast.Inspect(function.Body, func(node ast.Node) bool {
		if assigned, ok := node.(*ast.AssignStmt); ok && (assigned.Tok == token.DEFINE || assigned.Tok == token.ASSIGN) && len(assigned.Lhs) == len(assigned.Rhs) {
			for i, value := range assigned.Rhs {
				if name, ok := assigned.Lhs[i].(*ast.Ident); ok && isElapsed(value, nil) {
					elapsed[name.Name] = true
				}
			}
		}
		return true
	})
	ast.Inspect(function.Body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.LAND && mentions(n, "waittest", "Timed") {
				return false
			}
			more := n.Op == token.GTR || n.Op == token.GEQ
			less := n.Op == token.LSS || n.Op == token.LEQ
			if more && isElapsed(n.X, elapsed) || less && isElapsed(n.Y, elapsed) {
				all = append(all, judgement{n.Pos(), "an upper limit on elapsed time"})
			}
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			owner, _ := method.X.(*ast.Ident)
			name := method.Sel.Name
			switch {
			case owner != nil && slices.Contains(clockCalls[owner.Name], name) && !mentions(n, "waittest", "Deadline"):
				all = append(all, judgement{n.Pos(), owner.Name + "." + name})
			case (name == "After" || name == "Before") && isNow(method.X):
				all = append(all, judgement{n.Pos(), "a loop or check until a time"})
			case strings.HasPrefix(name, "Set") && strings.HasSuffix(name, "Deadline") && len(n.Args) == 1 && mentions(n.Args[0], "time", "Now"):
				all = append(all, judgement{n.Pos(), name + " from now"})
			}
		}
		return true
	})
	return all
}

// isElapsed reports whether an expression is time.Since(...), possibly with a method call, or a
// variable that holds its result.
func isElapsed(node ast.Expr, elapsed map[string]bool) bool {
	switch n := node.(type) {
	case *ast.Ident:
		return elapsed[n.Name]
	case *ast.CallExpr:
		method, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		if owner, ok := method.X.(*ast.Ident); ok && owner.Name == "time" {
			return method.Sel.Name == "Since"
		}
		return method.Sel.Name == "Sub" && isNow(method.X) || isElapsed(method.X, elapsed)
	}
	return false
}

func isNow(node ast.Expr) bool {
	call, ok := node.(*ast.CallExpr)
	return ok && isCall(call, "time", "Now")
}

func isCall(call *ast.CallExpr, owner, name string) bool {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := function.X.(*ast.Ident)
	return ok && of.Name == owner && function.Sel.Name == name
}

// mentions reports whether a node contains a call of the package's function.
func mentions(node ast.Node, owner, name string) (found bool) {
	ast.Inspect(node, func(inner ast.Node) bool {
		call, ok := inner.(*ast.CallExpr)
		found = found || ok && isCall(call, owner, name)
		return !found
	})
	return found
}
