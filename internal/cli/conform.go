package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance"
	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/internal/app"
	"github.com/weft-automation/weft/internal/guest"
)

// conformCommand holds a deployment against the contract, from outside.
type conformCommand struct {
	target
	Only   []string `placeholder:"PART" help:"Only these parts, such as 4.1, D5 or C; may be repeated."`
	Soak   bool     `help:"Run the cases too that take long."`
	Strict bool     `help:"Count what is chosen otherwise than Weft decided as a failure too."`
	Parts  bool     `help:"Show each part, not only the sums."`
	JUnit  string   `name:"junit" placeholder:"FILE" help:"Write the cases as JUnit's XML too."`

	Host        string   `placeholder:"NAME" help:"Name or address under which the deployment reaches this machine, if not loopback. Receivers listen on ports that the system gives."`
	Authority   string   `xor:"tls" placeholder:"FILE" help:"Receive callbacks by TLS under this authority, which is made if it is not there; the deployment has to trust it."`
	Certificate string   `xor:"tls" and:"own" placeholder:"FILE" help:"Receive callbacks by TLS with this certificate."`
	Key         string   `and:"own" placeholder:"FILE" help:"The certificate's private key."`
	Schedule    []string `name:"callback-schedule" placeholder:"DELAYS" help:"Delays before callback attempts, as the deployment is set, if not as in production."`

	Foreign   string `placeholder:"FILE" help:"Credentials of a second workspace."`
	Viewer    string `placeholder:"FILE" help:"Credentials with adminEmail and adminPassword of somebody who may only look."`
	Poor      string `placeholder:"FILE" help:"Credentials of a workspace with two credits."`
	Forwarded bool   `help:"The deployment believes X-Forwarded-For from this machine."`

	Guests      bool   `help:"Make workspaces, keys and people for the cases, on the server's side: more can be proven, and they stay."`
	DatabaseURL string `name:"database-url" placeholder:"URL" default:"${database_url}" help:"With --guests: PostgreSQL of the service ($$DATABASE_URL)."`
	DataDir     string `name:"data-dir" placeholder:"DIR" default:"${data_dir}" help:"With --guests: data folder of weft dev (${default})."`
}

// Help is what --help says beside the flags.
func (c *conformCommand) Help() string {
	return "Prints a table by part of the contract: what is proven, what is broken, what was not run and what it needs; and apart from it the choices, which are what the contract leaves open. A few cases that fail are run once more, alone: one that passes then is told as unsteady. The exit code is 0 when the contract is broken nowhere. It makes executions, workflows and the like in the workspace of the credentials: use one for tests."
}

func (c *conformCommand) Run(s *session) error {
	options := conformance.Options{Only: c.Only, Soak: c.Soak}
	for _, only := range c.Only {
		if !slices.ContainsFunc(conformance.Parts, func(p conformance.Part) bool { return conformance.Options{Only: []string{only}}.About(p.ID) }) {
			return fmt.Errorf("--only %s: there is no such part; weft conform --parts shows them all", only)
		}
	}
	junit, err := c.createJUnit()
	if err != nil {
		return err
	}
	defer junit.Close()
	target, done, err := c.reach(s)
	if err != nil {
		return err
	}
	defer done()
	cases := options.Chosen()
	s.note("%s against %s", counted(len(cases), "1 case", "%d cases"), target.BaseURL)
	var results []conformance.Result
	began := time.Now()
	conformance.RunAll(s.ctx, target, cases, func(r conformance.Result) {
		results = append(results, r)
		if r.Err != nil && s.ctx.Err() == nil {
			s.note("failed: %s (%s)", r.Case.Name, r.Case.Part)
		}
	})
	conformance.Again(s.ctx, target, results)
	if err := s.ctx.Err(); err != nil {
		return errors.New("it was broken off: nothing is told of what had not ended")
	}
	report := conformance.NewReport(options, results)
	if err := report.WriteTable(s.stdout, c.Parts); err != nil {
		return err
	}
	s.note("\nIt took %v.", time.Since(began).Round(100*time.Millisecond))
	if c.JUnit != "" {
		if err := errors.Join(report.WriteJUnit(junit, c.Strict), junit.Close()); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	if report.Failed(c.Strict) {
		return errQuiet
	}
	return nil
}

// createJUnit makes the file before anything is run for it.
func (c *conformCommand) createJUnit() (io.WriteCloser, error) {
	if c.JUnit == "" {
		return nopCloser{io.Discard}, nil
	}
	file, err := os.Create(c.JUnit)
	if err != nil {
		return nil, fmt.Errorf("--junit: %w", err)
	}
	return file, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// reach is the deployment, with all that the flags say it offers.
func (c *conformCommand) reach(s *session) (target *probe.Target, done func(), err error) {
	done = func() {}
	authority, err := c.authority(s) // first: the deployment may have to be started with it
	if err != nil {
		return nil, done, err
	}
	if _, err := c.read(); err != nil { // says what to do about it
		return nil, done, err
	}
	own, err := probe.ReadCredentials(c.Credentials)
	if err != nil {
		return nil, done, err
	}
	if c.BaseURL != "" {
		own.BaseURL = c.BaseURL
	}
	own.BaseURL = strings.TrimSuffix(own.BaseURL, "/")
	if target, err = probe.Reach(own); err != nil {
		return nil, done, err
	}
	target.Lenient, target.Authority, target.Host, target.Forwarded = true, authority, c.Host, c.Forwarded
	if target.Foreign, err = others(c.Foreign); err == nil {
		target.Viewer, err = others(c.Viewer)
	}
	if err == nil {
		target.Poor, err = others(c.Poor)
	}
	if err != nil {
		return nil, done, err
	}
	if len(c.Schedule) > 0 {
		if target.Schedule, err = app.ParseSchedule(c.Schedule); err != nil {
			return nil, done, fmt.Errorf("--callback-schedule: %w", err)
		}
	}
	if err := c.answers(s.ctx, target); err != nil {
		return nil, done, err
	}
	c.tryNear(s, target)
	if c.Guests {
		done, err = c.offer(s, target)
	}
	return target, done, err
}

// others are the credentials in a file, nil without one.
func others(file string) (*probe.Credentials, error) {
	if file == "" {
		return nil, nil
	}
	credentials, err := probe.ReadCredentials(file)
	return &credentials, err
}

// authority is what certifies the receivers, nil where they speak plain http.
func (c *conformCommand) authority(s *session) (*probe.Authority, error) {
	switch {
	case c.Certificate != "":
		return probe.OwnCertificate(c.Certificate, c.Key)
	case c.Authority == "":
		return nil, nil
	}
	authority, made, err := probe.ReadAuthority(c.Authority, c.Host)
	if made && err == nil {
		s.note("%s is a new authority. Start the deployment with WEFT_EGRESS_CA_FILE=%[1]s, or weft dev with --egress-ca %[1]s; then run this again.", c.Authority)
		return nil, errQuiet
	}
	return authority, err
}

// answers says what keeps the deployment from being tested at all.
func (c *conformCommand) answers(ctx context.Context, target *probe.Target) error {
	err := probe.Run(ctx, target, func(t *probe.Trial) {
		answer, err := t.Try(t.Context(), probe.Request{Path: probe.Executions + "?limit=1", Unchecked: true})
		t.NoError("reach "+target.BaseURL, err)
		t.Check(answer.Status == 200, "the credentials %s are answered %d at %s: %.300s", c.Credentials, answer.Status, target.BaseURL, answer.Body)
	})
	return err
}

// tryNear finds out whether the deployment reaches this machine, which many cases need.
func (c *conformCommand) tryNear(s *session, target *probe.Target) {
	err := target.Reaches(s.ctx)
	if target.Near = err == nil; target.Near {
		return
	}
	s.note("The deployment does not reach this machine: %s", printable(err.Error()))
	s.note("What needs that is not run. For a deployment on this machine: weft dev --allow-network 127.0.0.0/8, or WEFT_ALLOW_NETWORKS; for one elsewhere --host too.")
}

// offer makes guests on the server's side.
func (c *conformCommand) offer(s *session, target *probe.Target) (done func(), err error) {
	pool, done, err := database{DatabaseURL: c.DatabaseURL, DataDir: c.DataDir}.open(s.ctx)
	if err != nil {
		return func() {}, fmt.Errorf("--guests: %w", err)
	}
	if err := guest.Offer(s.ctx, pool, target); err != nil {
		done()
		return func() {}, fmt.Errorf("--guests: %w", err)
	}
	return done, nil
}
