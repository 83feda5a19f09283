package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The elements of JUnit XML that CI systems read.
type (
	junitSuites struct {
		XMLName  xml.Name `xml:"testsuites"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Errors   int      `xml:"errors,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Time     string   `xml:"time,attr"`
		Suites   []*junitSuite
	}
	junitSuite struct {
		XMLName  xml.Name `xml:"testsuite"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Errors   int      `xml:"errors,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Time     string   `xml:"time,attr"`
		Cases    []junitCase

		seconds float64
	}
	junitCase struct {
		XMLName xml.Name      `xml:"testcase"`
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitOutcome `xml:"failure"`
		Skipped *junitOutcome `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitOutcome struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes each case as a test. The suite of a test is the heading of the case's first
// part. Cases that were not run are skipped, with their needs as the message, and so are cases that
// could not judge the deployment. Unless strict is set,
// a failed case that proves only choices is skipped too, because it does not violate the contract.
func (r Report) WriteJUnit(out io.Writer, strict bool) error {
	all := junitSuites{Name: "weft conform"}
	by := map[heading]*junitSuite{}
	for _, h := range headings {
		by[h] = &junitSuite{Name: h.prefix + " " + h.title}
	}
	whole := 0.0
	for _, result := range r.Results {
		suite := by[headingOf(result.Case.Parts()[0])]
		suite.add(result, strict)
		whole += result.Took.Seconds()
	}
	for _, h := range headings {
		suite := by[h]
		if suite.Tests == 0 {
			continue
		}
		suite.Time = seconds(suite.seconds)
		all.Suites = append(all.Suites, suite)
		all.Tests, all.Failures, all.Skipped = all.Tests+suite.Tests, all.Failures+suite.Failures, all.Skipped+suite.Skipped
	}
	all.Time = seconds(whole)
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, xml.Header+string(text)+"\n")
	return err
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }

// add adds a case to the suite.
func (s *junitSuite) add(result Result, strict bool) {
	test := junitCase{Class: "conformance." + strings.ReplaceAll(result.Case.Parts()[0], ".", "_"), Name: result.Case.Name, Time: seconds(result.Took.Seconds())}
	var said []string
	said = append(said, "parts: "+result.Case.Part)
	for _, d := range result.Departures {
		said = append(said, "departs from "+d.Part+": "+d.Text)
	}
	if result.Unsteady != nil {
		said = append(said, "unsteady: it failed in parallel with others, and passed alone: "+result.Unsteady.Error())
	}
	test.Out = strings.Join(said, "\n")
	switch {
	case len(result.Missing) > 0:
		needs := make([]string, len(result.Missing))
		for i, need := range result.Missing {
			needs[i] = string(need)
		}
		test.Skipped = &junitOutcome{Message: "needs " + strings.Join(needs, ", and ")}
	case result.unjudged():
		test.Skipped = &junitOutcome{Message: "not judged: " + shorten(result.Err.Error())}
	case result.Err != nil && result.Case.choices() && !strict:
		test.Skipped = &junitOutcome{Message: "departs from a choice: " + shorten(result.Err.Error())}
	case result.Err != nil:
		test.Failure = &junitOutcome{Message: result.Case.Part, Type: "conformance", Text: result.Err.Error()}
	case strict && len(result.Departures) > 0:
		test.Failure = &junitOutcome{Message: result.Departures[0].Part, Type: "choice", Text: result.Departures[0].Text}
	}
	s.Tests++
	s.seconds += result.Took.Seconds()
	if test.Failure != nil {
		s.Failures++
	}
	if test.Skipped != nil {
		s.Skipped++
	}
	s.Cases = append(s.Cases, test)
}
