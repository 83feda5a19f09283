package conformance

import (
	"context"
	"encoding/xml"
	"errors"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// reported returns the report of a run about some parts, as a table and as JUnit XML.
func reported(t *testing.T, o Options, strict bool, results ...Result) (table string, junit junitSuites, failed bool) {
	t.Helper()
	report := NewReport(o, results)
	var lines, text strings.Builder
	if err := errors.Join(report.WriteTable(&lines, true), report.WriteJUnit(&text, strict)); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal([]byte(text.String()), &junit); err != nil {
		t.Fatal(err)
	}
	return lines.String(), junit, report.Failed(strict)
}

func TestAReportTellsWhatIsKnownOfEachPart(t *testing.T) {
	wrong := errors.New("got 1, want 2")
	busy := &probe.Unjudged{Obstacle: errors.New("503 with Retry-After 20s"), Err: wrong}
	contract, choice := Case{Name: "of both", Part: "8.2, D6.retry"}, Case{Name: "of a choice", Part: "D6.retry"}
	otherwise := probe.Departure{Part: "D6.retry", Text: "it is a date", Here: true}
	for _, c := range []struct {
		name             string
		results          []Result
		of8, ofD6        Verdict
		failed, strictly bool
		says             string
	}{
		{"all well", []Result{{Case: contract}}, Proven, Proven, false, false, "1 part of the choices: 1 proven"},
		{"the contract is broken", []Result{{Case: contract, Err: wrong}}, Failed, Open, true, true, "OPEN: choices that no case reached"},
		{"and the choice is proven elsewhere", []Result{{Case: contract, Err: wrong}, {Case: choice}}, Failed, Proven, true, true, "FAILED: violations of the contract"},
		{"a choice of another mind", []Result{{Case: contract}, {Case: choice, Err: wrong}}, Proven, Differs, false, true, "OTHERWISE: departures"},
		{"a choice that was let pass", []Result{{Case: contract, Departures: []probe.Departure{otherwise}}}, Proven, Differs, false, true, "it is a date"},
		{"not asked", []Result{{Case: contract, Missing: []probe.Need{probe.NeedWorkspace}}}, NotRun, NotRun, false, false, "give them credits: 1 (--guests)"},
		{"broken off", []Result{{Case: contract, Missing: []probe.Need{needEnd}}}, NotRun, NotRun, false, false, "a run that is not interrupted: 1"},
		{"too busy", []Result{{Case: contract, Err: busy}}, Unjudged, Unjudged, false, false, "NOT JUDGED: the deployment was too busy"},
		{"too busy for one case", []Result{{Case: contract, Err: busy}, {Case: choice}}, Unjudged, Unjudged, false, false, "503 with Retry-After 20s; then got 1"},
		{"broken elsewhere", []Result{{Case: contract, Err: busy}, {Case: contract, Err: wrong}}, Failed, Unjudged, true, true, "FAILED: violations of the contract"},
		{"passed alone", []Result{{Case: contract, Unsteady: wrong}}, Proven, Proven, false, false, "UNSTEADY"},
		{"nothing", nil, Unseen, Unseen, false, false, "UNSEEN: parts without a case"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, strict := range []bool{false, true} {
				table, junit, failed := reported(t, Options{Only: []string{"8.2", "D6.retry"}}, strict, c.results...)
				for part, want := range map[string]Verdict{"8.2": c.of8, "D6.retry": c.ofD6} {
					if !strings.Contains(table, "\n"+part+"  "+string(want)+" ") && !strings.Contains(table, "\n"+part+"       "+string(want)+" ") {
						t.Errorf("the table does not say that %s is %s: %s", part, want, table)
					}
				}
				if !strings.Contains(table, c.says) {
					t.Errorf("the table does not say %q: %s", c.says, table)
				}
				if want := c.failed || strict && c.strictly; failed != want || junit.Failures > 0 != want {
					t.Errorf("strict=%v: failed is %v, and JUnit has %d failures", strict, failed, junit.Failures)
				}
			}
		})
	}
}

// A run for one choice must fail if its case finds a violation of the contract.
func TestAReportOfAChoiceFailsWhereItsCaseBrokeTheContract(t *testing.T) {
	broken := Result{Case: Case{Name: "of both", Part: "8.2, D6.retry"}, Err: errors.New("got 1, want 2")}
	if _, junit, failed := reported(t, Options{Only: []string{"D6.retry"}}, false, broken); !failed || junit.Failures != 1 {
		t.Errorf("failed is %v, and JUnit has %d failures", failed, junit.Failures)
	}
}

func TestWhatTakesLongIsToldAsNotRun(t *testing.T) {
	size := Options{Only: []string{"D8.7.size"}}
	if table, _, _ := reported(t, size, false); !strings.Contains(table, "D8.7.size  not run") || !strings.Contains(table, "(--soak)") {
		t.Error(table)
	}
	size.Soak = true
	if len(size.Chosen()) != 1 {
		t.Errorf("the soak runs %d cases", len(size.Chosen()))
	}
}

func TestARunThatIsBrokenOffTellsWhatHadEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	results := map[string]Result{}
	began := make(chan struct{})
	cases := []Case{
		{Name: "ends", Part: "4.2", Run: func(*probe.Trial) { close(began) }},
		{Name: "is under way", Part: "4.3", Run: func(t *probe.Trial) {
			<-began
			cancel()
			<-t.Context().Done()
			t.Fatalf("the case's time is up")
		}},
	}
	RunAll(ctx, &probe.Target{}, cases, func(r Result) { results[r.Case.Name] = r })
	RunAll(ctx, &probe.Target{}, []Case{{Name: "is late", Run: func(*probe.Trial) { t.Error("it ran") }}}, func(r Result) { results[r.Case.Name] = r })
	for name, cut := range map[string]bool{"ends": false, "is under way": true, "is late": true} {
		if r := results[name]; r.Err != nil || len(r.Missing) > 0 != cut {
			t.Errorf("%s: %v, %v", name, r.Err, r.Missing)
		}
	}
	again := []Result{{Case: cases[0], Err: errors.New("got 1, want 2")}}
	if Again(ctx, &probe.Target{}, again); again[0].Err == nil || again[0].Unsteady != nil {
		t.Errorf("%+v", again[0])
	}
}

// A user who sees that a case was not run must see how to run it.
func TestEveryNeedOfACaseSaysHowItIsMet(t *testing.T) {
	for _, c := range Cases() {
		for _, need := range c.Needs {
			if provided[need] == "" {
				t.Errorf("%s needs %q, and nothing says how to give it", c.Name, need)
			}
		}
	}
}
