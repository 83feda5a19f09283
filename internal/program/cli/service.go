package cli

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/program/app"
)

type devCommand struct {
	Addr         string   `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address of the API (${default})."`
	OpsAddr      string   `name:"ops-addr" default:"127.0.0.1:9090" placeholder:"ADDR" help:"Address of health and metrics (${default})."`
	Expose       bool     `help:"Let other machines reach --addr and --ops-addr, over plain HTTP. One client address may then have an eighth of the connections, as in production."`
	ProxyAddr    string   `name:"proxy-addr" default:"127.0.0.1:8081" placeholder:"ADDR" help:"Loopback address of the proxy that signs requests with the key of weft dev (${default}). Every user of this machine can use it."`
	NoProxy      bool     `name:"no-proxy" help:"Don't run that proxy."`
	DataDir      string   `name:"data-dir" default:"${data_dir}" placeholder:"DIR" help:"Data folder (${default})."`
	AllowNetwork []string `name:"allow-network" placeholder:"CIDR" help:"Let components and callbacks also reach this network, even over plain http; may be repeated."`
	EgressCA     string   `name:"egress-ca" placeholder:"FILE" help:"Also trust the certificate authorities in this file, for callbacks and components."`
	Schedule     []string `name:"callback-schedule" placeholder:"DELAYS" help:"Delay before each attempt of a callback, such as 0s,1s,5s. Default: the delays of production."`
	Chain        bool     `help:"Also run a private EVM chain (anvil), and create two example workflows that use it."`
	Plan         string   `default:"" enum:",starter,growth,professional,enterprise" placeholder:"PLAN" help:"Put the workspace on this plan: starter, growth, professional or enterprise. Without this flag, a new workspace is on enterprise, and an existing workspace keeps its plan."`
	DatabaseURL  string   `name:"database-url" default:"${database_url}" placeholder:"URL" help:"Use this PostgreSQL instead of a private one ($$DATABASE_URL)."`
	LogLevel     string   `name:"log-level" default:"" enum:",debug,info,warn,error" placeholder:"LEVEL" help:"How much to log to stderr: debug, info, warn or error. Default: warn, or info with --verbose."`
}

// Run runs all of Weft until Ctrl-C.
func (c *devCommand) Run(s *session) error {
	networks, err := app.ParseNetworks(c.AllowNetwork)
	if err != nil {
		return fmt.Errorf("--allow-network: %w", err)
	}
	var schedule []time.Duration
	if len(c.Schedule) > 0 {
		if schedule, err = app.ParseSchedule(c.Schedule); err != nil {
			return fmt.Errorf("--callback-schedule: %w", err)
		}
	}
	var roots *x509.CertPool
	if c.EgressCA != "" {
		if roots, err = app.ReadRoots(c.EgressCA); err != nil {
			return fmt.Errorf("--egress-ca: %w", err)
		}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel(s))); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	starting := s.wait("Starting")
	defer starting.end()
	if c.NoProxy {
		c.ProxyAddr = ""
	}
	return app.Dev(s.ctx, app.DevConfig{
		Addr: c.Addr, OpsAddr: c.OpsAddr, Expose: c.Expose, ProxyAddr: c.ProxyAddr, DataDir: c.DataDir, AllowNetworks: networks, EgressRoots: roots, Schedule: schedule, Chain: c.Chain, Plan: c.Plan,
		DatabaseURL: c.DatabaseURL, Program: s.program, Log: telemetry.NewLogger(starting, level), Stdout: s.stdout, Verbose: s.Verbose, Progress: starting.steps(),
	})
}

// steps returns a function that adds a step of weft dev's start to the line, unless it is the last one
// again, and ends the progress after the last one.
func (p *progress) steps() func(step string) {
	text, last := "", ""
	return func(step string) {
		switch {
		case step == "":
			p.end()
		case text == "":
			text = strings.ToUpper(step[:1]) + step[1:] + " …"
		case step != last:
			text += " " + step + " …"
		}
		last = step
		p.show(text)
	}
}

func (c *devCommand) logLevel(s *session) string {
	if c.LogLevel == "" && s.Verbose {
		return "info"
	}
	return cmp.Or(c.LogLevel, "warn")
}

type serveCommand struct{ serveFlags }

// Run runs the API without workers.
func (c *serveCommand) Run(s *session) error {
	cfg, err := c.read(s)
	if err != nil {
		return err
	}
	return app.Run(s.ctx, cfg, telemetry.NewLogger(s.stderr, cfg.LogLevel))
}

type workCommand struct {
	configured
	OpsAddr *string `name:"ops-addr" placeholder:"ADDR" help:"Address of health and metrics; empty for none ($$WEFT_OPS_ADDR, 127.0.0.1:9091)."`
}

// Run runs the workers without the API.
func (c *workCommand) Run(s *session) error {
	cfg, err := app.ConfigFromEnv(s.environ)
	if err != nil {
		return err
	}
	if s.getenv("WEFT_OPS_ADDR") == "" {
		cfg.OpsAddr = app.WorkersOpsAddr
	}
	cfg.OpsAddr = *cmp.Or(c.OpsAddr, &cfg.OpsAddr)
	cfg.Addr, cfg.Work = "", true
	return app.Run(s.ctx, cfg, telemetry.NewLogger(s.stderr, cfg.LogLevel))
}

type migrateCommand struct {
	configured
	DatabaseURL string `name:"database-url" default:"${database_url}" placeholder:"URL" help:"The PostgreSQL to migrate ($$DATABASE_URL)."`
}

// Run migrates the database to this binary's schema.
func (c *migrateCommand) Run(s *session) error {
	if c.DatabaseURL == "" {
		return fmt.Errorf("the database is missing: set DATABASE_URL or --database-url")
	}
	migrating := s.wait("Migrating")
	err := app.Migrate(s.ctx, c.DatabaseURL)
	migrating.end()
	if err != nil {
		return err
	}
	s.note("The database has the schema of this binary.")
	return nil
}
