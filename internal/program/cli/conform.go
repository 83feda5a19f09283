package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/weft-automation/weft/conformance"
	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/program/app"
	"github.com/weft-automation/weft/internal/program/conformseed"
)

// conformCommand tests a deployment against the contract, from outside.
type conformCommand struct {
	target
	Only   []string `placeholder:"PART" help:"Only these parts, such as 4.1, D5 or C; may be repeated."`
	Soak   bool     `help:"Also run the cases that take long."`
	Strict bool     `help:"Where the contract leaves a choice, count differences from Weft's decisions as failures."`
	Parts  bool     `help:"Show the result of each part, not only the totals."`
	JUnit  string   `name:"junit" placeholder:"FILE" help:"Also write the results as JUnit XML."`

	Host        string   `placeholder:"NAME" help:"Name or address under which the deployment reaches this machine, if not loopback. Receivers listen on free ports."`
	Authority   string   `xor:"tls" placeholder:"FILE" help:"Receive callbacks by TLS with a certificate of this authority. The authority is created if it is missing. The deployment must trust the authority."`
	Certificate string   `xor:"tls" and:"own" placeholder:"FILE" help:"Receive callbacks by TLS with this certificate."`
	Key         string   `and:"own" placeholder:"FILE" help:"The certificate's private key."`
	Schedule    []string `name:"callback-schedule" placeholder:"DELAYS" help:"Delays before callback attempts that the deployment is configured with, such as 0s,1s,5s. For weft dev, the default is the configured delays."`

	Foreign   string `placeholder:"FILE" help:"Credentials of a second workspace."`
	Viewer    string `placeholder:"FILE" help:"Credentials with the adminEmail and adminPassword of a viewer."`
	Poor      string `placeholder:"FILE" help:"Credentials of a workspace with two credits."`
	Forwarded bool   `help:"The deployment trusts X-Forwarded-For from this machine."`

	Guests      bool   `help:"Create workspaces, keys and people for the cases in the service's database, so that limits, credits and the isolation of workspaces are tested too. The workspaces are not deleted afterwards."`
	DatabaseURL string `name:"database-url" placeholder:"URL" default:"${database_url}" help:"With --guests: PostgreSQL of the service ($$DATABASE_URL)."`
	DataDir     string `name:"data-dir" placeholder:"DIR" default:"${data_dir}" help:"With --guests: data folder of weft dev (${default})."`
}

// Validate rejects invalid combinations of flags.
func (c *conformCommand) Validate() error {
	for _, only := range c.Only {
		if !slices.ContainsFunc(conformance.Parts, func(p conformance.Part) bool { return conformance.Options{Only: []string{only}}.About(p.ID) }) {
			return fmt.Errorf("--only: unknown part %q; run weft conform --parts to list all", only)
		}
	}
	if len(c.Schedule) > 0 {
		if _, err := app.ParseSchedule(c.Schedule); err != nil {
			return fmt.Errorf("--callback-schedule: %w", err)
		}
	}
	return nil
}

func (c *conformCommand) Run(s *session) error {
	options := conformance.Options{Only: c.Only, Soak: c.Soak}
	target, done, err := c.newTarget(s)
	if err != nil {
		return err
	}
	defer done()
	cases := options.Chosen()
	s.note("Running %s against %s, several at the same time. All cases together take a minute or two.", counted(len(cases), "1 case", "%d cases"), target.BaseURL)
	var results []conformance.Result
	began := time.Now()
	testing := s.wait("Testing")
	defer testing.end()
	conformance.RunAll(s.ctx, target, cases, func(r conformance.Result) {
		results = append(results, r)
		testing.show(fmt.Sprintf("%d of %d cases done", len(results), len(cases)))
		if r.Err != nil {
			s.note("failed: %s (%s)", r.Case.Name, r.Case.Part)
		}
	})
	conformance.Again(s.ctx, target, results)
	testing.end()
	ended := end(s, target)
	report := conformance.NewReport(options, results)
	if err := c.print(s, report); err != nil {
		return err
	}
	s.note("\nThe cases took %v.", time.Since(began).Round(100*time.Millisecond))
	if err := c.writeJUnit(report); err != nil {
		return err
	}
	switch {
	case s.ctx.Err() != nil:
		return errors.New("interrupted; cases that had not finished are reported as not run")
	case report.Failed(c.Strict):
		return errQuiet
	case ended != nil:
		return errQuiet
	case report.Unjudged():
		return coded{errors.New("some parts were not judged"), exitAuthentication}
	}
	return nil
}

// judged is the verdict on a part of the contract, with the errors of the cases that decided it.
type judged struct {
	Part    string   `json:"part"`
	Text    string   `json:"text"`
	Choice  bool     `json:"choice"`
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons"`
}

// print prints the report: the table, or the verdict on each part.
func (c *conformCommand) print(s *session, report conformance.Report) error {
	all := make([]judged, len(report.Found))
	for i, one := range report.Found {
		all[i] = judged{one.Part.ID, one.Part.Text, one.Part.Choice(), string(one.Verdict), []string{}}
		for _, why := range one.Why {
			all[i].Reasons = append(all[i].Reasons, why.Case+": "+why.Text)
		}
	}
	return s.printAs(all, func(out io.Writer) error { return report.WriteTable(out, c.Parts) })
}

// end removes what the cases created, even after an interruption.
func end(s *session, target *probe.Target) error {
	if s.ctx.Err() != nil {
		s.note("Interrupted. Removing what the cases created; interrupt again to leave it.")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 5*time.Minute)
	defer cancel()
	err := target.End(ctx)
	if err != nil {
		s.complain("The cases created this, and it could not be removed:\n%v", err)
	}
	return err
}

// writeJUnit writes the file of --junit.
func (c *conformCommand) writeJUnit(report conformance.Report) error {
	if c.JUnit == "" {
		return nil
	}
	file, err := os.Create(c.JUnit)
	if err == nil {
		err = errors.Join(report.WriteJUnit(file, c.Strict), file.Close())
	}
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	return nil
}

// newTarget returns the deployment as a target, with everything that the flags provide.
func (c *conformCommand) newTarget(s *session) (target *probe.Target, done func(), err error) {
	done = func() {}
	authority, err := c.authority(s) // first, because the deployment may have to be started with this authority
	if err != nil {
		return nil, done, err
	}
	known, _, err := c.signer(s) // its error says what to do
	if err != nil {
		return nil, done, err
	}
	base, err := client.ParseBase(known.BaseURL)
	if err != nil {
		return nil, done, err
	}
	if base.Path != "" { // some cases write raw request lines, which a proxy must not change
		return nil, done, fmt.Errorf("the base URL %q must end after the host: conform tests a service without a proxy that removes a path", known.BaseURL)
	}
	file, err := c.file(s)
	if err != nil {
		return nil, done, err
	}
	own, err := probe.ReadCredentials(file)
	if err != nil {
		return nil, done, err
	}
	own.BaseURL = base.String()
	if target, err = probe.Reach(own); err != nil {
		return nil, done, err
	}
	target.Lenient, target.Authority, target.Host, target.Forwarded = true, authority, c.Host, c.Forwarded
	if target.Foreign, err = readCredentials(c.Foreign); err == nil {
		target.Viewer, err = readCredentials(c.Viewer)
	}
	if err == nil {
		target.Poor, err = readCredentials(c.Poor)
	}
	if err != nil {
		return nil, done, err
	}
	if schedule := c.schedule(known); len(schedule) > 0 {
		if target.Schedule, err = app.ParseSchedule(schedule); err != nil {
			return nil, done, fmt.Errorf("callback schedule: %w", err)
		}
	}
	if err := c.answers(s, target); err != nil {
		return nil, done, err
	}
	c.checkReachability(s, target)
	if c.Guests {
		done, err = c.offer(s, target)
	}
	return target, done, err
}

// schedule returns the callback delays if they are known: for a weft dev, those in its credentials
// file, unless a different service is tested.
func (c *conformCommand) schedule(known client.Credentials) []string {
	if len(c.Schedule) > 0 || c.BaseURL != "" {
		return c.Schedule
	}
	return known.CallbackSchedule
}

// readCredentials returns the credentials in a file, or nil if file is "".
func readCredentials(file string) (*probe.Credentials, error) {
	if file == "" {
		return nil, nil
	}
	credentials, err := probe.ReadCredentials(file)
	return &credentials, err
}

// authority returns the authority that certifies the receivers, or nil for plain http.
func (c *conformCommand) authority(s *session) (*probe.Authority, error) {
	switch {
	case c.Certificate != "":
		return probe.OwnCertificate(c.Certificate, c.Key)
	case c.Authority == "":
		return nil, nil
	}
	authority, made, err := probe.ReadAuthority(c.Authority, c.Host)
	if made && err == nil {
		s.note("%s is a new authority. Start the deployment with WEFT_EGRESS_CA_FILE=%[1]s, or weft dev with --egress-ca %[1]s; then repeat this command.", c.Authority)
		return nil, errQuiet
	}
	return authority, err
}

// answers returns an error if the deployment cannot be tested at all.
func (c *conformCommand) answers(s *session, target *probe.Target) error {
	return probe.Run(s.ctx, target, func(t *probe.Trial) {
		limit := reportedLimit(t)
		t.Check(limit >= unlimited, "the workspace may make %d requests a second, which the cases go far beyond: use a workspace without limits (the plan enterprise)", limit)
		c.mustSucceed(t, probe.Request{Method: http.MethodPost, Path: probe.Components, Body: t.JSON(probe.RandomUUID())}) // needs credits
	})
}

// mustSucceed sends a request that must succeed and returns its response.
func (c *conformCommand) mustSucceed(t *probe.Trial, request probe.Request) probe.Answer {
	request.Unchecked = true
	base := t.Target().BaseURL
	answer, err := t.Try(t.Context(), request)
	if err != nil {
		t.Fatalf("reach %s: %v\nIs a deployment running there? weft doctor looks into it", base, err)
	}
	if answer.Status == http.StatusOK {
		return answer
	}
	var problem struct{ Reason, Detail string }
	_ = json.Unmarshal(answer.Body, &problem) // otherwise only the status is reported
	cure := ""
	switch {
	case problem.Reason == "invalid_credentials":
		cure = "\nThe credentials are not of this deployment, or the key was revoked"
	case answer.Status == http.StatusNotFound:
		cure = "\nNothing of the contract is there"
	}
	t.Fatalf("the credentials are answered %d at %s: %s%s", answer.Status, base, printable(problem.Detail), cure)
	return answer
}

// unlimited is a number of requests per second that the cases hardly reach.
const unlimited = 100

// reportedLimit returns the key's limit of requests per second as the deployment reports it, or unlimited if
// it reports none. The cases report what is wrong with the report.
func reportedLimit(t *probe.Trial) int {
	answer, err := t.Try(t.Context(), probe.Request{Path: "/v1/sdk/limits", Unchecked: true})
	var limits struct{ RequestsPerSecond struct{ Limit *int } }
	if err != nil || answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &limits) != nil || limits.RequestsPerSecond.Limit == nil {
		return unlimited
	}
	return *limits.RequestsPerSecond.Limit
}

// checkReachability checks whether the deployment reaches this machine, which many cases need.
func (c *conformCommand) checkReachability(s *session, target *probe.Target) {
	err := target.Reaches(s.ctx)
	if target.Near = err == nil; target.Near {
		return
	}
	s.note("The deployment does not reach this machine: %s", printable(err.Error()))
	s.note("The cases that need this are not run. If the deployment is on this machine, use weft dev --allow-network 127.0.0.0/8, or WEFT_ALLOW_NETWORKS. If the deployment is on another machine, use --host too.")
}

// offer creates the guests in the database of the service.
func (c *conformCommand) offer(s *session, target *probe.Target) (done func(), err error) {
	pool, done, err := database{DatabaseURL: c.DatabaseURL, DataDir: c.DataDir}.open(s.ctx)
	if err != nil {
		return func() {}, fmt.Errorf("--guests: %w", err)
	}
	if err := conformseed.Offer(s.ctx, pool, target); err != nil {
		done()
		return func() {}, fmt.Errorf("--guests: %w", err)
	}
	return done, nil
}
