package cli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/program/app"
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

// check is a named check.
type check struct {
	name string
	look func(context.Context, *session) []finding
}

// checks returns the checks in an order in which each check depends only on earlier checks.
func (d *doctorCommand) checks() []check {
	return []check{
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

// get requests an address without credentials.
func get(ctx context.Context, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
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

// checkSettings reads the environment as `weft serve` and `weft work` would. `weft dev` uses flags
// instead, so if DATABASE_URL is not set, checkSettings reports only unknown variables.
func (d *doctorCommand) checkSettings(_ context.Context, s *session) []finding {
	environ := s.environ
	if s.getenv("DATABASE_URL") == "" {
		key := make([]byte, 32)
		rand.Read(key) //nolint:errcheck // crashes the program instead of failing
		standIn := []string{"DATABASE_URL=postgres://x/x", "WEFT_MASTER_KEY=" + base64.StdEncoding.EncodeToString(key)}
		environ = append(standIn, environ...)
	}
	cfg, err := app.ConfigFromEnv(environ)
	if err == nil {
		err = cfg.CheckConnections()
	}
	if err != nil {
		var all []finding
		for line := range strings.Lines(err.Error()) {
			all = append(all, finding{wrong, strings.TrimSpace(line), "correct or unset the variable"})
		}
		return all
	}
	return []finding{{fine, "the environment is understood", ""}}
}

// harmfulSettings break something without an error. Only a superuser can set them, and a session of
// Weft can't reset them. Weft sets or refuses the others that a role or database can have, or they are
// harmless.
var harmfulSettings = []struct{ name, bad, harm string }{
	{"track_activities", "off", "frozen workers are not noticed, and their work waits"},
	{"track_counts", "off", "autovacuum doesn't run, and tables grow"},
	{"zero_damaged_pages", "on", "damaged rows are lost without an error"},
	{"ignore_checksum_failure", "on", "damaged pages are read without an error"},
	{"ignore_system_indexes", "on", "every statement is slow"},
}

// checkSettings warns of settings of the server, the role or the database that harm silently.
func checkSettings(ctx context.Context, pool *pgxpool.Pool) (all []finding) {
	for _, setting := range harmfulSettings {
		var now string
		if err := pool.QueryRow(ctx, "SELECT current_setting($1)", setting.name).Scan(&now); err == nil && now == setting.bad {
			all = append(all, finding{doubt, fmt.Sprintf("%s is %s: %s", setting.name, now, setting.harm),
				"as an administrator, remove it from postgresql.conf, or: ALTER ROLE or ALTER DATABASE ... RESET " + setting.name})
		}
	}
	return all
}
