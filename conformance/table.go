package conformance

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weft-automation/weft/conformance/probe"
)

// WriteTable writes the report as a table with a line for each heading of the contract and of the
// choices. If parts is set, it writes a line for each part instead. Below the table it lists the
// reasons for the failed parts, and the cases that were not run with their needs.
func (r Report) WriteTable(out io.Writer, parts bool) error {
	w := &printer{out: out}
	r.writeLines(w, "THE CONTRACT", false, parts)
	r.writeLines(w, "CHOICES: decisions where the contract leaves a choice", true, parts)
	w.reasons("FAILED: violations of the contract", r.Of(Failed))
	w.reasons("NOT JUDGED: the deployment was too busy, or the connection broke", r.Of(Unjudged))
	w.reasons("OTHERWISE: departures from the decisions, which do not violate the contract", r.Of(Differs))
	w.reasons("OPEN: choices that no case reached, because something else failed first", r.Of(Open))
	r.writeUnsteady(w)
	r.writeNeeds(w)
	r.writeUnseen(w)
	w.line("")
	for _, choices := range []bool{false, true} {
		if counted := r.tally(choices); len(counted) > 0 {
			w.line("%s", counted.sum(map[bool]string{false: "the contract", true: "the choices"}[choices]))
		}
	}
	return w.err
}

// printer writes lines until one fails, and keeps the error.
type printer struct {
	out io.Writer
	err error
}

func (w *printer) line(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format+"\n", args...)
	}
}

// verdicts are the columns of the table.
var verdicts = []Verdict{Proven, Failed, Differs, Open, Unjudged, NotRun, Unseen}

// tallied counts the parts by verdict.
type tallied map[Verdict]int

func (c tallied) sum(of string) string {
	all := 0
	var list []string
	for _, v := range verdicts {
		all += c[v]
		if c[v] > 0 {
			list = append(list, fmt.Sprintf("%d %s", c[v], v))
		}
	}
	parts := map[bool]string{true: "part", false: "parts"}[all == 1]
	return fmt.Sprintf("%d %s of %s: %s", all, parts, of, strings.Join(list, ", "))
}

// tally counts the parts of the contract, or the choices.
func (r Report) tally(choices bool) tallied {
	all := tallied{}
	for _, f := range r.Found {
		if f.Part.Choice() == choices {
			all[f.Verdict]++
		}
	}
	return all
}

// writeLines writes the lines of the table for the contract, or for the choices.
func (r Report) writeLines(w *printer, title string, choices, parts bool) {
	if len(r.tally(choices)) == 0 {
		return
	}
	w.line("\n%s", title)
	table := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	shown := []Verdict{Proven, map[bool]Verdict{false: Failed, true: Differs}[choices], Open, Unjudged, NotRun, Unseen}
	if parts {
		for _, f := range r.Found {
			if f.Part.Choice() == choices {
				_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", f.Part.ID, f.Verdict, f.Part.Text)
			}
		}
	} else {
		_, _ = fmt.Fprint(table, "PART\t\t")
		for _, v := range shown {
			_, _ = fmt.Fprint(table, strings.ToUpper(string(v))+"\t")
		}
		_, _ = fmt.Fprintln(table)
		for _, h := range headings {
			r.writeHeading(table, h, choices, shown)
		}
	}
	if err := table.Flush(); w.err == nil {
		w.err = err
	}
}

func (r Report) writeHeading(out io.Writer, h heading, choices bool, shown []Verdict) {
	counted := tallied{}
	for _, f := range r.Found {
		if f.Part.Choice() == choices && headingOf(f.Part.ID) == h {
			counted[f.Verdict]++
		}
	}
	if len(counted) == 0 {
		return
	}
	_, _ = fmt.Fprintf(out, "%s\t%s\t", h.prefix, h.title)
	for _, v := range shown {
		text := "-"
		if counted[v] > 0 {
			text = fmt.Sprint(counted[v])
		}
		_, _ = fmt.Fprint(out, text+"\t")
	}
	_, _ = fmt.Fprintln(out)
}

// reasons writes each part with the cases that contradict it. It writes the error of a case only at
// the first part that the case contradicts.
func (w *printer) reasons(title string, found []Found) {
	if len(found) == 0 {
		return
	}
	w.line("\n%s", title)
	written := map[Reason]bool{}
	for _, f := range found {
		w.line("  %s  %s", f.Part.ID, f.Part.Text)
		for i, why := range f.Why {
			if i == 3 {
				w.line("    and %d more cases", len(f.Why)-i)
				break
			}
			if written[why] {
				w.line("    %s: as above", why.Case)
				continue
			}
			written[why] = true
			w.line("    %s:\n      %s", why.Case, shorten(why.Text))
		}
	}
}

// shorten returns text as one line without control characters, cut to 600 characters.
func shorten(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > 600 {
		return string(runes[:600]) + "..."
	}
	return text
}

// writeUnsteady writes the cases that passed only when they were repeated.
func (r Report) writeUnsteady(w *printer) {
	titled := false
	for _, result := range r.Results {
		if result.Unsteady == nil {
			continue
		}
		if !titled {
			w.line("\nUNSTEADY: cases that failed in parallel with others, and passed alone")
		}
		titled = true
		w.line("  %s (%s):\n    %s", result.Case.Name, result.Case.Part, shorten(result.Unsteady.Error()))
	}
}

// provided maps each need to the flags and settings of weft conform that meet it.
var provided = map[probe.Need]string{
	probe.NeedNear:      "weft dev --allow-network 127.0.0.0/8, or --host",
	probe.NeedForeign:   "--guests or --foreign",
	probe.NeedPoor:      "--guests or --poor",
	probe.NeedForwarded: "WEFT_TRUSTED_PROXIES there, --forwarded here",
	probe.NeedOwner:     "adminEmail and adminPassword in the credentials",
	probe.NeedViewer:    "--guests or --viewer",
	probe.NeedNewKey:    "--guests, or adminEmail and adminPassword in the credentials",
	probe.NeedWorkspace: "--guests",
	probe.NeedSchedule:  "--callback-schedule, there and here",
	probe.NeedPause:     "--callback-schedule, there and here, such as 0s,1s,5s",
	needSoak:            "--soak",
}

// writeNeeds writes how many cases were not run, by need.
func (r Report) writeNeeds(w *printer) {
	cases, order := map[probe.Need]int{}, []probe.Need{}
	for _, result := range r.Results {
		for _, need := range result.Missing {
			if cases[need]++; cases[need] == 1 {
				order = append(order, need)
			}
		}
	}
	if len(order) == 0 {
		return
	}
	w.line("\nNOT RUN: cases that need")
	for _, need := range order {
		if how := provided[need]; how != "" {
			w.line("  %s: %d (%s)", need, cases[need], how)
			continue
		}
		w.line("  %s: %d", need, cases[need])
	}
}

// writeUnseen writes the parts without a case, each with the reason.
func (r Report) writeUnseen(w *printer) {
	unseen := r.Of(Unseen)
	if len(unseen) == 0 {
		return
	}
	w.line("\nUNSEEN: parts without a case")
	for _, f := range unseen {
		w.line("  %s  %s: %s", f.Part.ID, f.Part.Text, f.Part.Elsewhere)
	}
}
