package cli

import (
	"context"
	"fmt"
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
	fine  level = "ok"
	doubt level = "warning"
	wrong level = "WRONG"
)

// finding is the result of one check, with a fix.
type finding struct {
	level level
	text  string
	cure  string
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
	bad := 0
	for _, check := range d.checks() {
		ctx, cancel := context.WithTimeout(s.ctx, checkTimeout)
		for _, f := range check.look(ctx, s) {
			_, _ = fmt.Fprintf(s.stdout, "%-8s %-12s %s\n", f.level, check.name, f.text)
			if f.cure != "" {
				_, _ = fmt.Fprintf(s.stdout, "%-8s %-12s -> %s\n", "", "", f.cure)
			}
			if f.level == wrong {
				bad++
			}
		}
		cancel()
	}
	if bad > 0 {
		s.note("%d of these must be fixed.", bad)
		return errQuiet
	}
	return nil
}

// get requests an unauthenticated path of the service.
func (d *doctorCommand) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.baseURL()+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// baseURL returns the base URL of the flag, else of the credentials, else of the address.
func (d *doctorCommand) baseURL() string {
	if c, err := d.read(); err == nil {
		return c.BaseURL
	}
	return "http://" + d.Addr
}
