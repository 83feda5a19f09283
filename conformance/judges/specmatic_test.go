package judges

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// trial is one test that Specmatic made of the document: a request that is right to it, or
// wrong in one way, and what it found in the answer.
type trial struct {
	Name    string  `xml:"name,attr"`
	Failure *string `xml:"failure"`
}

// failed reports whether the failure message contains the string.
func (each trial) failed(at string) bool {
	return each.Failure != nil && strings.Contains(*each.Failure, at)
}

// TestSpecmaticFindsNothing has Specmatic make thousands of requests from the document, right
// ones and wrong ones, and judge the answers. make judges runs it: it takes Java.
func TestSpecmaticFindsNothing(t *testing.T) {
	t.Parallel()
	jar := os.Getenv("SPECMATIC_JAR")
	if jar == "" {
		t.Log("SPECMATIC_JAR names no jar: make judges does")
		return
	}
	d := start(t)
	s := prepare(t, d)
	spared := readExclusions(t)
	document, _, err := fit(spared, s.names)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("in the service", func(t *testing.T) {
		t.Parallel()
		w := watch(t, d, s)
		trials := generate(t, jar, document, w.at, s.token)
		if len(trials) < 2500 || len(trials) != len(w.seen) {
			t.Errorf("there are %d tests of %d requests", len(trials), len(w.seen))
		}
		disputed := 0
		for _, each := range trials {
			if each.failed(">> RESPONSE.STATUS") {
				disputed++ // the witness knows which requests these are
			} else if each.Failure != nil {
				t.Errorf("%s\n%s", each.Name, *each.Failure)
			}
		}
		found, faults := w.settle(readDocument(t), spared)
		for _, fault := range faults {
			t.Error(fault)
		}
		if found != disputed {
			t.Errorf("the tool finds the status of %d answers wrong, and %d are not as it wants them", disputed, found)
		}
		t.Logf("%d tests, of %d of which openapi.yaml thinks otherwise than the tool", len(trials), disputed)
	})
	t.Run("but in a deployment that breaks the contract", func(t *testing.T) {
		t.Parallel()
		broken := generate(t, jar, document, breaking(t, d.proxy, `"requestsPerHour":{`, `"requestsPerDay":{`), s.token, "--filter=PATH='/v1/sdk/limits'")
		if !slices.ContainsFunc(broken, func(each trial) bool { return each.failed("requestsPerHour") }) {
			t.Errorf("a field that is missing is not found: %+v", broken)
		}
	})
}

// generate runs the tool and reads its report.
func generate(t *testing.T, jar string, document []byte, at, token string, flags ...string) []trial {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weft.json"), document, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := waittest.Context(t)
	// It ends before code that is optimized would pay, and the service needs the processors, too.
	machine := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
	arguments := slices.Concat(machine, []string{"-jar", jar, "test", "--testBaseURL=" + at, "--junitReportDir=report"}, flags)
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
