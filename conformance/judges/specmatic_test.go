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

// trial is one test that Specmatic generated from the document. Its request is valid, or invalid in
// one way. Failure is the fault that Specmatic found in the response, or nil.
type trial struct {
	Name    string  `xml:"name,attr"`
	Failure *string `xml:"failure"`
}

// failed reports whether the failure message contains the string.
func (each trial) failed(at string) bool {
	return each.Failure != nil && strings.Contains(*each.Failure, at)
}

// TestSpecmaticFindsNothing lets Specmatic generate thousands of valid and invalid requests from
// the document and validate the responses. `make judges` runs this test, which needs Java.
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
			t.Errorf("%d tests have sent %d requests", len(trials), len(w.seen))
		}
		disputed := 0
		for _, each := range trials {
			if each.failed(">> RESPONSE.STATUS") {
				disputed++ // settle checks these requests
			} else if each.Failure != nil {
				t.Errorf("%s\n%s", each.Name, *each.Failure)
			}
		}
		found, faults := w.settle(readDocument(t), spared)
		for _, fault := range faults {
			t.Error(fault)
		}
		if found != disputed {
			t.Errorf("the tool disputes the status of %d responses, but the witness counts %d", disputed, found)
		}
		t.Logf("%d tests, of %d of which openapi.yaml thinks otherwise than the tool", len(trials), disputed)
	})
	t.Run("but in a deployment that breaks the contract", func(t *testing.T) {
		t.Parallel()
		broken := generate(t, jar, document, breaking(t, d.proxy, `"requestsPerHour":{`, `"requestsPerDay":{`), s.token, "--filter=PATH='/v1/sdk/limits'")
		if !slices.ContainsFunc(broken, func(each trial) bool { return each.failed("requestsPerHour") }) {
			t.Errorf("the tool does not find a missing field: %+v", broken)
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
	// The run is too short to gain from optimizing compilation, and the service needs the CPUs too.
	machine := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
	arguments := slices.Concat(machine, []string{"-jar", jar, "test", "--testBaseURL=" + at, "--junitReportDir=report"}, flags)
	program := exec.CommandContext(ctx, "java", append(arguments, "weft.json")...)
	program.Dir = dir
	program.Env = append(os.Environ(), "SPECMATIC_GENERATIVE_TESTS=true", "SessionToken="+token)
	said, err := program.CombinedOutput() // the exit code is nonzero if a test fails; the report has the details
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
