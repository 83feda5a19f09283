package judges

import (
	"context"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/contract"
)

// trial is one test that Specmatic made of the document, of requests that are right (+ve) or
// wrong in one way (-ve).
type trial struct {
	Name    string  `xml:"name,attr"`
	Failure *string `xml:"failure"`
}

// TestSpecmaticFindsNothing has Specmatic make thousands of requests from the document, right
// ones and wrong ones, and judge the answers. make judges runs it: it takes Java, and minutes.
func TestSpecmaticFindsNothing(t *testing.T) {
	jar := os.Getenv("SPECMATIC_JAR")
	if jar == "" {
		t.Log("SPECMATIC_JAR names no jar: make judges does")
		return
	}
	d := start(t)
	s := prepare(t, d)
	spared := readExclusions(t)
	document, narrowed := fit(t, spared, s)
	trials := generate(t, jar, document, d.proxy, s.token)
	if len(trials) < 1000 {
		t.Errorf("there are %d tests only", len(trials))
	}
	seen, pinned := map[string]int{}, 0
	for _, each := range trials {
		seen[operationOf(each.Name)]++
		switch {
		case each.Failure == nil:
		case wrongByThePinOnly(each.Name, narrowed):
			pinned++
		default:
			t.Errorf("%s\n%s", each.Name, *each.Failure)
		}
	}
	for _, operation := range judged(t, spared) {
		if seen[operation] == 0 {
			t.Errorf("nothing was sent to %s", operation)
		}
	}
	broken := generate(t, jar, document, breaking(t, d.proxy, `"requestsPerHour":{`, `"requestsPerDay":{`), s.token, "--filter=PATH='/v1/sdk/limits'")
	if !slices.ContainsFunc(broken, func(each trial) bool { return each.Failure != nil }) {
		t.Errorf("a field that is missing is not found: %+v", broken)
	}
	t.Logf("%d tests of %d operations, %d of them wrong by what was narrowed only", len(trials), len(seen), pinned)
}

// generate runs the tool and reads its report.
func generate(t *testing.T, jar string, document []byte, at, token string, flags ...string) []trial {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weft.json"), document, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	arguments := append([]string{"-jar", jar, "test", "--testBaseURL=" + at, "--junitReportDir=report"}, flags...)
	program := exec.CommandContext(ctx, "java", append(arguments, "weft.json")...)
	program.Dir = dir
	program.Env = append(os.Environ(), "SPECMATIC_GENERATIVE_TESTS=true", "SessionToken="+token)
	said, err := program.CombinedOutput() // it fails where a test does, which the report says
	text, missing := os.ReadFile(filepath.Join(dir, "report", "TEST-junit-jupiter.xml"))
	if missing != nil {
		t.Fatalf("%v, %v\n%.20000s", err, missing, said)
	}
	var report struct {
		Trials []trial `xml:"testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report.Trials
}

var (
	scenario = regexp.MustCompile(`Scenario: ([A-Z]+) (\S+) -> `)
	segment  = regexp.MustCompile(`\(\w+:\w+\)|\{\w+\}`)
	mutated  = regexp.MustCompile(`([\w.\[\]]+) is (?:mutated from|set to a value matching an invalid regex) `)
)

// operationOf is the method and the path that a test is about.
func operationOf(name string) string {
	found := scenario.FindStringSubmatch(name)
	if found == nil {
		return name
	}
	return found[1] + " " + segment.ReplaceAllString(found[2], "{}")
}

// wrongByThePinOnly says whether a request is wrong only by a value beside the one that the
// test narrowed the document to: to the service it is right.
func wrongByThePinOnly(name string, narrowed []string) bool {
	found := mutated.FindStringSubmatch(name)
	if found == nil || !strings.Contains(name, "-ve ") {
		return false
	}
	path := strings.Split(found[1], ".")
	return slices.Contains(narrowed, path[len(path)-1]) || slices.Contains([]string{"id", "secret", "header"}, path[len(path)-1])
}

// judged are the operations that the tool is not spared, in the form of operationOf.
func judged(t *testing.T, spared exclusions) []string {
	t.Helper()
	rules, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, operation := range rules.Operations {
		if !slices.ContainsFunc(spared.Operations, func(e excludedOperation) bool { return e.Operation == operation.ID }) {
			all = append(all, operation.Method+" "+segment.ReplaceAllString(operation.Path, "{}"))
		}
	}
	return all
}
