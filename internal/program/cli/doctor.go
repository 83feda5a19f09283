package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// doctorCommand checks the setup of the user who runs it. It changes nothing and starts nothing.
type doctorCommand struct {
	database
	target
	Addr      string `default:"${addr}" placeholder:"ADDR" help:"Address of the API (${default})."`
	OpsAddr   string `name:"ops-addr" default:"${ops_addr}" placeholder:"ADDR" help:"Address of health and metrics (${default})."`
	EgressURL string `name:"egress-url" default:"https://example.com/" placeholder:"URL" help:"URL for testing outbound connections (${default})."`
}

// cure returns the fix for weft dev or, if DATABASE_URL is set, the fix for serve and work.
func (d *doctorCommand) cure(ofDev, ofServe string) string {
	if d.DatabaseURL != "" {
		return ofServe
	}
	return ofDev
}

// level is the severity of a finding.
type level string

const (
	fine   level = "ok"
	doubt  level = "warning"
	wrong  level = "WRONG"
	silent level = "silent" // the service does not answer
)

// finding is the result of one check, with a fix.
type finding struct {
	Level level  `json:"level"`
	Text  string `json:"text"`
	Cure  string `json:"fix,omitempty"`
}

// checked is a finding with the name of its check.
type checked struct {
	Check string `json:"check"`
	finding
}

// checks returns the checks in an order in which each check depends only on earlier checks.
func (d *doctorCommand) checks() []struct {
	name string
	look func(context.Context, *session) []finding
} {
	return []struct {
		name string
		look func(context.Context, *session) []finding
	}{
		{"settings", d.checkSettings},
		{"master key", d.checkMasterKey},
		{"data folder", d.checkDataFolder},
		{"PostgreSQL", d.checkPostgres},
		{"sealed", d.checkSealedValues},
		{"credits", d.checkCredits},
		{"ports", d.checkPorts},
		{"service", d.checkService},
		{"clock", d.checkClock},
		{"credentials", d.checkCredentials},
		{"egress", d.checkEgress},
	}
}

// checkTimeout limits each check.
const checkTimeout = 10 * time.Second

func (d *doctorCommand) Run(s *session) error {
	bad, unanswered := 0, false
	all := []checked{}
	for _, check := range d.checks() {
		ctx, cancel := context.WithTimeout(s.ctx, checkTimeout)
		for _, f := range check.look(ctx, s) {
			all = append(all, checked{check.name, f})
			unanswered = unanswered || f.Level == silent
			if f.Level == wrong {
				bad++
			}
		}
		cancel()
	}
	if err := s.printAs(all, func(out io.Writer) error { return drawFindings(out, all) }); err != nil {
		return err
	}
	switch {
	case bad > 0:
		return fmt.Errorf("%d of these must be fixed", bad)
	case unanswered:
		return coded{fmt.Errorf("nothing answers at %s", d.baseURL(s)), exitUnreachable}
	}
	return nil
}

// drawFindings writes a line for each finding, and one for its fix.
func drawFindings(out io.Writer, all []checked) error {
	for _, f := range all {
		if _, err := fmt.Fprintf(out, "%-8s %-12s %s\n", f.Level, f.Check, f.Text); err != nil {
			return err
		}
		if f.Cure != "" {
			_, _ = fmt.Fprintf(out, "%-8s %-12s -> %s\n", "", "", f.Cure)
		}
	}
	return nil
}

// get requests an unauthenticated path of the service.
func (d *doctorCommand) get(ctx context.Context, s *session, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.baseURL(s)+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// baseURL returns the base URL of the flag, else of the credentials, else of the address.
func (d *doctorCommand) baseURL(s *session) string {
	if c, err := d.read(s); err == nil {
		return c.BaseURL
	}
	return "http://" + d.Addr
}
