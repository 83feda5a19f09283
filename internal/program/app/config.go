package app

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/platform/mail"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/platform/retention"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Config is everything that an operator decides. Its zero value is not usable:
// ConfigFromEnv, or the literal of weft dev.
type Config struct {
	DatabaseURL string
	Keyring     *seal.Keyring

	Addr    string // of the API; "" serves none
	OpsAddr string // of health and metrics; "" serves none
	Work    bool   // run components and deliver callbacks
	Workers int    // executions at once, for each of the two ways in (slotsOf)

	AllowNetworks []netip.Prefix // that egress may reach beyond public addresses
	AllowHosts    []string
	EgressRoots   *x509.CertPool // nil: the system's

	CallbackSchedule []time.Duration // delay before each attempt
	Retention        time.Duration   // how long executions are kept after their end; 0: 30 days
	TimestampLeeway  time.Duration   // how far in the future a signed timestamp may lie
	TrustedProxies   []netip.Prefix  // whose X-Forwarded-For is believed

	// DrainDelay is how long a stopping process goes on serving after its readiness
	// turned false, so that load balancers stop sending requests first.
	DrainDelay time.Duration
	// StopTimeout is how long work in flight may go on once the stop began; 0: defaultStopTimeout.
	StopTimeout time.Duration
	// ComponentTimeout is the longest that one call of a component may take here,
	// whatever its own timeout; 0: defaultComponentTimeout.
	ComponentTimeout      time.Duration
	Connections           int   // of the API that may be open at once; 0: what the descriptor limit allows
	ConnectionsPerAddress int   // 0: an eighth of Connections
	BufferMemory          int64 // bytes that bodies of requests and answers in flight may hold; 0: server.DefaultMemory

	Mail      *mail.Sender // of invitations; nil: they are not mailed
	PublicURL string       // at which people reach the service; needed with Mail

	ClockTolerance  time.Duration // by how much the clock may differ from PostgreSQL's; 0: 5 s
	LimiterPatience time.Duration // how long a decision on a limit may wait for the database; 0: ratelimit.Patience

	LogLevel      slog.Level
	TraceEndpoint string // OTLP over HTTP; "" traces nothing

	// apiRole is under whose rights requests work: postgres.API, unless a test takes
	// away what row-level security hides.
	apiRole postgres.Role

	// now is this machine's clock; nil: time.Now. Tests set it.
	now func() time.Time

	// beforeServing runs when all is built and the addresses are bound, before
	// the first request is answered.
	beforeServing func(ctx context.Context, a *App) error
}

const defaultClockTolerance = 5 * time.Second

// defaultWorkers is meant for components that mostly wait for upstreams.
const defaultWorkers = 100

const (
	// defaultDrainDelay is two rounds of a load balancer that checks every two seconds.
	defaultDrainDelay = 5 * time.Second
	// defaultComponentTimeout cuts no component short: it is API_CALL's, the longest.
	defaultComponentTimeout = 125 * time.Second
	defaultStopTimeout      = 130 * time.Second
	maxDrainDelay           = 10 * time.Minute
	maxStopTimeout          = time.Hour
)

func (c Config) stopTimeout() time.Duration { return cmp.Or(c.StopTimeout, defaultStopTimeout) }

func (c Config) componentTimeout() time.Duration {
	return cmp.Or(c.ComponentTimeout, defaultComponentTimeout)
}

// variable is one setting of the environment.
type variable struct {
	name string
	read func(c *Config, value string) error
}

var variables = []variable{
	{"WEFT_ADDR", func(c *Config, v string) error { c.Addr = v; return nil }},
	{"WEFT_OPS_ADDR", func(c *Config, v string) error { c.OpsAddr = v; return nil }},
	{"WEFT_WORKERS", func(c *Config, v string) (err error) {
		if c.Workers, err = strconv.Atoi(v); err != nil || c.Workers < 1 || c.Workers > 10_000 {
			return errors.New("must be a whole number from 1 to 10000")
		}
		return nil
	}},
	{"WEFT_ALLOW_NETWORKS", func(c *Config, v string) (err error) { c.AllowNetworks, err = ParseNetworks(split(v)); return err }},
	{"WEFT_TRUSTED_PROXIES", func(c *Config, v string) (err error) { c.TrustedProxies, err = ParseNetworks(split(v)); return err }},
	{"WEFT_EGRESS_CA_FILE", func(c *Config, v string) (err error) { c.EgressRoots, err = ReadRoots(v); return err }},
	{"WEFT_CALLBACK_SCHEDULE", func(c *Config, v string) (err error) { c.CallbackSchedule, err = ParseSchedule(split(v)); return err }},
	{"WEFT_RETENTION", func(c *Config, v string) (err error) { c.Retention, err = parseRetention(v); return err }},
	{"WEFT_TIMESTAMP_LEEWAY", func(c *Config, v string) (err error) {
		if c.TimestampLeeway, err = time.ParseDuration(v); err != nil || c.TimestampLeeway < 0 || c.TimestampLeeway > 2*time.Second {
			return errors.New("must be a duration from 0s to 2s")
		}
		return nil
	}},
	{"WEFT_DRAIN_DELAY", func(c *Config, v string) (err error) {
		c.DrainDelay, err = parseDuration(v, 0, maxDrainDelay)
		return err
	}},
	{"WEFT_STOP_TIMEOUT", func(c *Config, v string) (err error) {
		c.StopTimeout, err = parseDuration(v, time.Second, maxStopTimeout)
		return err
	}},
	{"WEFT_COMPONENT_TIMEOUT", func(c *Config, v string) (err error) {
		c.ComponentTimeout, err = parseDuration(v, time.Second, maxStopTimeout)
		return err
	}},
	{"WEFT_CONNECTIONS", func(c *Config, v string) (err error) { c.Connections, err = parseConnections(v); return err }},
	{"WEFT_CONNECTIONS_PER_ADDRESS", func(c *Config, v string) (err error) { c.ConnectionsPerAddress, err = parseConnections(v); return err }},
	{"WEFT_BUFFER_MEMORY", func(c *Config, v string) error {
		mebibytes, err := strconv.ParseInt(v, 10, 32)
		if c.BufferMemory = mebibytes << 20; err != nil || mebibytes < 64 {
			return errors.New("must be a whole number of MiB, at least 64")
		}
		return nil
	}},
	{"WEFT_CLOCK_TOLERANCE", func(c *Config, v string) (err error) {
		if c.ClockTolerance, err = time.ParseDuration(v); err != nil || c.ClockTolerance < 100*time.Millisecond || c.ClockTolerance > time.Minute {
			return errors.New("must be a duration from 100ms to 1m")
		}
		return nil
	}},
	{"WEFT_LOG_LEVEL", func(c *Config, v string) error { return c.LogLevel.UnmarshalText([]byte(v)) }},
}

// known are the variables that are read elsewhere: the master keys and the mail settings here below,
// the rest by the tests and the command line.
var known = []string{
	"WEFT_SMTP_URL", "WEFT_SMTP_FROM", "WEFT_PUBLIC_URL",
	"WEFT_MASTER_KEY", "WEFT_MASTER_KEYS_OLD", "WEFT_DATA_DIR", "WEFT_CREDENTIALS", "WEFT_BASE_URL",
	"WEFT_URL", "WEFT_API_KEY", "WEFT_API_SECRET", // of the clients to copy
	"WEFT_CALLBACK_SECRET", "WEFT_CRASH_AT", "WEFT_TEST_DATABASE_URL", "WEFT_SOAK",
}

// ConfigFromEnv reads the environment of `weft serve` and `weft work`. All
// faults come back in one error; no value of a secret is in it.
func ConfigFromEnv(environ []string) (Config, error) {
	c := Config{
		Addr: "127.0.0.1:8080", OpsAddr: "127.0.0.1:9090", Workers: defaultWorkers,
		CallbackSchedule: callback.DefaultSchedule(),
		DrainDelay:       defaultDrainDelay, StopTimeout: defaultStopTimeout, ComponentTimeout: defaultComponentTimeout,
	}
	env := map[string]string{}
	var faults []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
		if strings.HasPrefix(name, "WEFT_") && !isKnown(name) {
			faults = append(faults, fmt.Errorf("%s: there is no such setting", name))
		}
	}
	for _, v := range variables {
		if value := env[v.name]; value != "" {
			if err := v.read(&c, value); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", v.name, err))
			}
		}
	}
	if c.StopTimeout > 0 && c.StopTimeout < c.ComponentTimeout { // 0: its own fault is reported
		faults = append(faults, fmt.Errorf("WEFT_STOP_TIMEOUT: %v is shorter than WEFT_COMPONENT_TIMEOUT (%v), so a stop would cut off calls that may still succeed: raise the first or lower the second", c.StopTimeout, c.ComponentTimeout))
	}
	var err error
	if c.DatabaseURL = env["DATABASE_URL"]; c.DatabaseURL == "" {
		faults = append(faults, errors.New("DATABASE_URL: must be set to the address of a PostgreSQL database"))
	}
	if c.Mail, c.PublicURL, err = mailing(env); err != nil {
		faults = append(faults, err)
	}
	c.TraceEndpoint = env["OTEL_EXPORTER_OTLP_ENDPOINT"]
	if c.Keyring, err = keyring(env["WEFT_MASTER_KEY"], env["WEFT_MASTER_KEYS_OLD"]); err != nil {
		faults = append(faults, err)
	}
	return c, errors.Join(faults...)
}

// ClockToleranceFromEnv is how far the environment lets clocks differ.
func ClockToleranceFromEnv(environ []string) time.Duration {
	c, _ := ConfigFromEnv(environ) // what is wrong with other settings is reported elsewhere
	return cmp.Or(c.ClockTolerance, defaultClockTolerance)
}

func isKnown(name string) bool {
	return slices.Contains(known, name) ||
		slices.ContainsFunc(variables, func(v variable) bool { return v.name == name })
}

// KeyringFromEnv is the master keys of the environment, as serve and work have
// them.
func KeyringFromEnv(environ []string) (*seal.Keyring, error) {
	env := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return keyring(env["WEFT_MASTER_KEY"], env["WEFT_MASTER_KEYS_OLD"])
}

// keyring makes the ring of master keys: the present one, and others that open
// what is sealed under them, older ones or the next one ("base64,base64").
func keyring(primary, old string) (*seal.Keyring, error) {
	if primary == "" {
		return nil, errors.New("WEFT_MASTER_KEY: must be set to the base64 of 32 random bytes (openssl rand -base64 32)")
	}
	key, err := seal.ParseKey(primary)
	if err != nil {
		return nil, fmt.Errorf("WEFT_MASTER_KEY: %w", err)
	}
	var others []seal.Key
	for _, text := range split(old) {
		other, err := seal.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("WEFT_MASTER_KEYS_OLD: %w", err)
		}
		others = append(others, other)
	}
	return seal.NewKeyring(key, others...)
}

// ParseNetworks reads networks in CIDR form; a lone address is the network of
// itself.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, addrErr := netip.ParseAddr(text)
			if addrErr != nil {
				return nil, fmt.Errorf("%q is neither a network like 10.0.0.0/8 nor an address", text)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		list = append(list, prefix.Masked())
	}
	return list, nil
}

// ReadRoots is the system's authorities and those of a file of PEM certificates.
func ReadRoots(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", path)
	}
	return roots, nil
}

// ParseSchedule reads the delays before the attempts of a callback, 1 to 100 of
// them, such as 0s, 5s, 5m.
func ParseSchedule(texts []string) ([]time.Duration, error) {
	list := make([]time.Duration, 0, len(texts))
	for _, text := range texts {
		delay, err := time.ParseDuration(text)
		if err != nil || delay < 0 {
			return nil, fmt.Errorf("%q is not a duration like 5s", text)
		}
		list = append(list, delay)
	}
	if len(list) == 0 || len(list) > 100 {
		return nil, errors.New("must name 1 to 100 delays")
	}
	return list, nil
}

// parseDuration reads a duration like 5s within bounds.
func parseDuration(text string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		return 0, fmt.Errorf("must be a duration like 30s, from %v to %v", least, most)
	}
	return d, nil
}

// parseRetention reads a duration like 720h, or whole days like 30d.
func parseRetention(text string) (time.Duration, error) {
	kept, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		kept = time.Duration(min(n, 100*365)) * 24 * time.Hour
	}
	if err != nil || kept < retention.Least {
		return 0, errors.New("must be a duration like 30d or 720h, at least 1d")
	}
	return kept, nil
}

func parseConnections(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, errors.New("must be a whole number from 1 to 1000000")
	}
	return n, nil
}

func split(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// mailing reads how invitations are mailed. Without WEFT_SMTP_URL they are not.
//
// The links in mails begin with WEFT_PUBLIC_URL and never with the address of a request: a
// client chooses that, and could have the token of a link sent to a server of its own.
func mailing(env map[string]string) (sender *mail.Sender, publicURL string, err error) {
	if public := env["WEFT_PUBLIC_URL"]; public != "" {
		at, err := url.Parse(public)
		if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" || at.Fragment != "" || at.User != nil {
			return nil, "", errors.New("WEFT_PUBLIC_URL: must have the form https://HOST, or https://HOST:PORT")
		}
		publicURL = at.Scheme + "://" + at.Host
	}
	if env["WEFT_SMTP_URL"] == "" {
		return nil, publicURL, nil
	}
	if publicURL == "" {
		return nil, "", errors.New("WEFT_PUBLIC_URL: must be set beside WEFT_SMTP_URL, to the address at which people reach this service")
	}
	sender, err = mail.NewSender(mail.Options{URL: env["WEFT_SMTP_URL"], From: env["WEFT_SMTP_FROM"]})
	if err != nil {
		return nil, "", fmt.Errorf("WEFT_SMTP_URL, WEFT_SMTP_FROM: %w", err)
	}
	return sender, publicURL, nil
}
