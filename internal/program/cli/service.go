package cli

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

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

// settingsFiles are the paths of files with settings. A later file overrides earlier ones.
type settingsFiles []string

// configured selects the files with the settings of a command.
type configured struct {
	Config settingsFiles `name:"config" sep:"none" placeholder:"FILE" help:"File with settings, a line NAME=VALUE for each. Environment variables and flags override it. Can be repeated."`
}

// configCommand shows and checks the settings of weft serve and weft work.
type configCommand struct {
	Show  configShow  `cmd:"" help:"Show the settings of weft serve with their sources. Secrets are hidden."`
	Check configCheck `cmd:"" help:"Check the settings as weft serve does. Exits with 2 if any is not valid."`
}

type configShow struct{ serveFlags }

// effective is a setting as weft config show prints it.
type effective struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"` // flag, environment, default or the path of a file
}

func (c *configShow) Run(s *session) error {
	var all []effective
	for _, setting := range app.Settings() {
		e := effective{setting.Name, s.getenv(setting.Name), "environment"}
		if file, ok := s.files[setting.Name]; ok {
			e.Source = file
		}
		if flag := map[string]*string{"WEFT_ADDR": c.Addr, "WEFT_OPS_ADDR": c.OpsAddr}[setting.Name]; flag != nil {
			e.Value, e.Source = *flag, "flag"
		} else if e.Value == "" {
			e.Value, e.Source = setting.Default, "default"
		}
		if setting.Secret {
			e.Value = hidden(e.Value)
		}
		all = append(all, e)
	}
	return s.printAll(all, view{columns: "NAME=name VALUE=value SOURCE=source"})
}

// hidden returns the value of a secret setting as anybody may see it. Of a URL, it keeps the parts
// that cannot be secret.
func hidden(value string) string {
	at, err := url.Parse(value)
	if value == "" {
		return ""
	}
	if err != nil || at.Scheme == "" || at.Opaque != "" || strings.Contains(at.Path, "@") {
		return "(hidden)"
	}
	kept, query := url.URL{Scheme: at.Scheme, Host: at.Host}, url.Values{}
	if at.User != nil {
		kept.User = url.UserPassword(at.User.Username(), "hidden")
	}
	if strings.HasPrefix(at.Scheme, "postgres") { // the path of another URL may be a token
		kept.Path = at.Path
		for _, name := range []string{"dbname", "host", "port", "sslmode", "user"} {
			if v := at.Query().Get(name); v != "" {
				query.Set(name, v)
			}
		}
	}
	kept.RawQuery = query.Encode()
	return kept.String()
}

type configCheck struct{ serveFlags }

func (c *configCheck) Run(s *session) error {
	cfg, err := c.read(s)
	if err = errors.Join(s.badFiles, err, cfg.CheckConnections()); err != nil {
		return coded{err, exitUsage}
	}
	s.note("The settings are valid.")
	return nil
}

// readSettings reads the files of --config into the session's environment. It reports whether there
// are any. Faults in them are in badFiles.
func (s *session) readSettings(command *kong.Context) bool {
	var paths settingsFiles
	for _, flag := range command.Flags() {
		if files, ok := flag.Target.Interface().(settingsFiles); ok {
			paths = files
		}
	}
	values := map[string]string{}
	s.files = map[string]string{}
	for _, path := range paths {
		read, err := readSettingsFile(path)
		s.badFiles = errors.Join(s.badFiles, err)
		for name, value := range read {
			values[name], s.files[name] = value, path
		}
	}
	for name, value := range values {
		if s.getenv(name) != "" {
			delete(s.files, name)
			continue
		}
		s.environ = slices.DeleteFunc(slices.Clone(s.environ), func(entry string) bool { return entry == name+"=" })
		s.environ = append(s.environ, name+"="+value)
	}
	return len(paths) > 0
}

// readSettingsFile returns the settings in a file. It reads the part of systemd's format for
// environment files that both understand alike: comments, and values on one line, in quotes or not.
func readSettingsFile(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	values := map[string]string{}
	var faults []error
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		plain := value
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			plain = value[1 : n-1]
		}
		switch {
		case !ok || !variableName.MatchString(name):
			err = errors.New("must be NAME=VALUE") // the line may be a secret, so the error does not quote it
		case !strings.HasPrefix(name, "WEFT_") && !slices.ContainsFunc(app.Settings(), func(s app.Setting) bool { return s.Name == name }):
			err = fmt.Errorf("%q is not a setting of Weft; set it in the environment", name)
		case strings.ContainsAny(plain, "\"'\\"):
			err = fmt.Errorf("the value of %s has a quote or a backslash inside; set it in the environment", name)
		default:
			values[name], err = plain, nil
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s, line %d: %w", path, number, err))
		}
	}
	return values, errors.Join(faults...)
}

// serveFlags are the flags of weft serve.
type serveFlags struct {
	configured
	Addr    *string `placeholder:"ADDR" help:"Address of the API ($$WEFT_ADDR, 127.0.0.1:8080)."`
	OpsAddr *string `name:"ops-addr" placeholder:"ADDR" help:"Address of health and metrics ($$WEFT_OPS_ADDR, 127.0.0.1:9090)."`
}

// read returns the settings of weft serve.
func (f serveFlags) read(s *session) (app.Config, error) {
	cfg, err := app.ConfigFromEnv(s.environ)
	cfg.Addr, cfg.OpsAddr = *cmp.Or(f.Addr, &cfg.Addr), *cmp.Or(f.OpsAddr, &cfg.OpsAddr)
	return cfg, err
}
