package app

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	"github.com/weft-automation/weft/internal/web/server"
	"github.com/weft-automation/weft/internal/web/settings"
)

// Config holds all settings of a process. Its zero value is not usable: get one from ConfigFromEnv,
// or build it as weft dev does.
type Config struct {
	DatabaseURL string
	Keyring     *seal.Keyring

	Addr    string // of the API; "" serves none
	OpsAddr string // of health and metrics; "" serves none
	Work    bool   // run components and deliver callbacks
	Workers int    // concurrent executions for each source: the queue and direct acceptance (see slotsOf)
	// WorkersOnly keeps components out of processes that only serve the API. Otherwise such a process
	// runs components that have no effect: for callers that wait for the result, and as stages of
	// runs.
	WorkersOnly bool

	AllowNetworks []netip.Prefix // non-public networks that egress may reach
	AllowHosts    []string
	OwnAddresses  []string       // "host:port" of listeners, besides those of Config, that egress must never reach
	EgressRoots   *x509.CertPool // nil: the system's roots

	CallbackSchedule []time.Duration // delay before each attempt
	Retention        time.Duration   // how long finished executions are kept; 0: 30 days
	TimestampLeeway  time.Duration   // how far in the future a signed timestamp may lie
	TrustedProxies   []netip.Prefix  // proxies whose X-Forwarded-For is trusted

	// DrainDelay is how long a stopping process keeps serving after it reports not ready, so that
	// load balancers stop sending requests first.
	DrainDelay time.Duration
	// StopTimeout is how long work in flight may continue after the stop has started; 0:
	// defaultStopTimeout.
	StopTimeout time.Duration
	// ComponentTimeout limits a single component call, even if the component's own timeout is
	// longer; 0: defaultComponentTimeout.
	ComponentTimeout      time.Duration
	Connections           int   // open connections to the API; 0: what the descriptor limit allows
	ConnectionsPerAddress int   // 0: an eighth of Connections
	BufferMemory          int64 // bytes that request and response bodies in flight may occupy; 0: server.DefaultMemory

	Mail      *mail.Sender // sends invitations; nil: they are not mailed
	PublicURL string       // where users reach the service; required with Mail

	ClockTolerance  time.Duration // allowed difference between this clock and PostgreSQL's; 0: 5 s
	LimiterPatience time.Duration // how long a rate limit decision may wait for the database; 0: ratelimit.Patience

	LogLevel      slog.Level
	TraceEndpoint string // OTLP over HTTP; "": no tracing

	// apiRole is the database role of requests; "": postgres.API. A test sets a different role to
	// switch off row-level security.
	apiRole postgres.Role
	// bindCursors makes lists send bound cursors, as they will in the next release. Tests set it.
	bindCursors bool

	// turnPatience is how long a transaction waits for others of its workspace; 0: permit.Patience.
	turnPatience time.Duration

	// now is this machine's clock; nil: time.Now. Tests set it.
	now func() time.Time

	// ticket signs in the person who started weft dev; nil: GET /open doesn't exist.
	ticket *settings.Ticket

	// beforeServing runs once everything is built and the addresses are bound, before the process
	// responds to the first request.
	beforeServing func(ctx context.Context, a *App) error
}

const defaultClockTolerance = 5 * time.Second

// WorkersOpsAddr is the default operations address of weft work.
const WorkersOpsAddr = "127.0.0.1:9091"

// defaultWorkers suits components that spend most of their time waiting for upstreams.
const defaultWorkers = 100

const (
	// defaultDrainDelay covers two health checks of a load balancer that checks every two seconds.
	defaultDrainDelay = 5 * time.Second
	// defaultComponentTimeout equals the longest timeout of any component (API_CALL), so the
	// default shortens no component's timeout.
	defaultComponentTimeout = 125 * time.Second
	defaultStopTimeout      = 130 * time.Second
	maxDrainDelay           = 10 * time.Minute
	maxStopTimeout          = time.Hour
)

func (c Config) stopTimeout() time.Duration { return cmp.Or(c.StopTimeout, defaultStopTimeout) }

func (c Config) componentTimeout() time.Duration {
	return cmp.Or(c.ComponentTimeout, defaultComponentTimeout)
}

// Setting names a setting of `weft serve` and `weft work`.
type Setting struct {
	Name    string
	Default string // "": depends on the machine, or none
	Secret  bool   // the value is a secret, or a URL that may contain one
}

// Settings returns all settings.
func Settings() []Setting {
	all := slices.Clone(special)
	for _, v := range variables {
		all = append(all, Setting{Name: v.name, Default: v.standard})
	}
	return all
}

// variable is a setting read from an environment variable.
type variable struct {
	name     string
	standard string // the default, in the form of the variable
	read     func(c *Config, value string) error
}

var variables = []variable{
	{"WEFT_ADDR", "127.0.0.1:8080", func(c *Config, v string) (err error) { c.Addr, err = parseAddress(v); return err }},
	{"WEFT_OPS_ADDR", "127.0.0.1:9090", func(c *Config, v string) (err error) { c.OpsAddr, err = parseAddress(v); return err }},
	{"WEFT_WORKERS", strconv.Itoa(defaultWorkers), func(c *Config, v string) (err error) {
		if c.Workers, err = strconv.Atoi(v); err != nil || c.Workers < 1 || c.Workers > 10_000 {
			return errors.New("must be a whole number from 1 to 10000")
		}
		return nil
	}},
	{"WEFT_API_RUNS_COMPONENTS", "true", func(c *Config, v string) error {
		runs, err := strconv.ParseBool(v)
		if err != nil {
			return errors.New("must be true or false")
		}
		c.WorkersOnly = !runs
		return nil
	}},
	{"WEFT_ALLOW_NETWORKS", "", func(c *Config, v string) (err error) { c.AllowNetworks, err = ParseNetworks(split(v)); return err }},
	{"WEFT_TRUSTED_PROXIES", "", func(c *Config, v string) (err error) { c.TrustedProxies, err = ParseNetworks(split(v)); return err }},
	{"WEFT_EGRESS_CA_FILE", "", func(c *Config, v string) (err error) { c.EgressRoots, err = ReadRoots(v); return err }},
	{"WEFT_CALLBACK_SCHEDULE", joined(callback.DefaultSchedule()), func(c *Config, v string) (err error) { c.CallbackSchedule, err = ParseSchedule(split(v)); return err }},
	{"WEFT_RETENTION", "30d", func(c *Config, v string) (err error) { c.Retention, err = parseRetention(v); return err }},
	{"WEFT_TIMESTAMP_LEEWAY", "0s", func(c *Config, v string) (err error) {
		if c.TimestampLeeway, err = time.ParseDuration(v); err != nil || c.TimestampLeeway < 0 || c.TimestampLeeway > 2*time.Second {
			return errors.New("must be a duration from 0s to 2s")
		}
		return nil
	}},
	{"WEFT_DRAIN_DELAY", defaultDrainDelay.String(), func(c *Config, v string) (err error) {
		c.DrainDelay, err = parseDuration(v, 0, maxDrainDelay)
		return err
	}},
	{"WEFT_STOP_TIMEOUT", defaultStopTimeout.String(), func(c *Config, v string) (err error) {
		c.StopTimeout, err = parseDuration(v, time.Second, maxStopTimeout)
		return err
	}},
	{"WEFT_COMPONENT_TIMEOUT", defaultComponentTimeout.String(), func(c *Config, v string) (err error) {
		c.ComponentTimeout, err = parseDuration(v, time.Second, maxStopTimeout)
		return err
	}},
	{"WEFT_CONNECTIONS", "", func(c *Config, v string) (err error) { c.Connections, err = parseConnections(v); return err }},
	{"WEFT_CONNECTIONS_PER_ADDRESS", "", func(c *Config, v string) (err error) { c.ConnectionsPerAddress, err = parseConnections(v); return err }},
	{"WEFT_BUFFER_MEMORY", strconv.Itoa(server.DefaultMemory >> 20), func(c *Config, v string) error {
		mebibytes, err := strconv.ParseInt(v, 10, 32)
		if c.BufferMemory = mebibytes << 20; err != nil || c.BufferMemory < leastBuffer {
			return errors.New("must be a whole number of MiB, at least 64")
		}
		return nil
	}},
	{"WEFT_CLOCK_TOLERANCE", defaultClockTolerance.String(), func(c *Config, v string) (err error) {
		if c.ClockTolerance, err = time.ParseDuration(v); err != nil || c.ClockTolerance < 100*time.Millisecond || c.ClockTolerance > time.Minute {
			return errors.New("must be a duration from 100ms to 1m")
		}
		return nil
	}},
	{"WEFT_LOG_LEVEL", "info", func(c *Config, v string) error { return c.LogLevel.UnmarshalText([]byte(v)) }},
}

// special are the settings that no variable reads, because they depend on each other or are required.
var special = []Setting{
	{Name: "DATABASE_URL", Secret: true}, {Name: "WEFT_MASTER_KEY", Secret: true}, {Name: "WEFT_MASTER_KEYS_OLD", Secret: true},
	{Name: "WEFT_SMTP_URL", Secret: true}, {Name: "WEFT_SMTP_FROM"}, {Name: "WEFT_PUBLIC_URL"},
	{Name: "OTEL_EXPORTER_OTLP_ENDPOINT", Secret: true},
}

// known lists the variables that tests and the CLI read.
var known = []string{
	"WEFT_DATA_DIR", "WEFT_PROFILE", "WEFT_CREDENTIALS", "WEFT_BASE_URL", "WEFT_ADMIN_PASSWORD",
	"WEFT_URL", "WEFT_API_KEY", "WEFT_API_SECRET", // used by the client files that users copy
	"WEFT_CALLBACK_SECRET", "WEFT_CRASH_AT", "WEFT_TEST_DATABASE_URL", "WEFT_SOAK",
}

// ConfigFromEnv reads the environment of `weft serve` and `weft work`. It returns all problems
// joined into one error, which contains no secret values.
func ConfigFromEnv(environ []string) (Config, error) {
	var c Config
	env := map[string]string{}
	var faults []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
		if strings.HasPrefix(name, "WEFT_") && !isKnown(name) {
			faults = append(faults, fmt.Errorf("%s: unknown setting", name))
		}
	}
	for _, v := range variables {
		if value := cmp.Or(env[v.name], v.standard); value != "" {
			if err := v.read(&c, value); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", v.name, err))
			}
		}
	}
	if c.StopTimeout > 0 && c.StopTimeout < c.ComponentTimeout { // 0 was already reported as invalid
		faults = append(faults, fmt.Errorf("WEFT_STOP_TIMEOUT: %v is shorter than WEFT_COMPONENT_TIMEOUT (%v), so a stop would interrupt calls that could still succeed; raise the former or lower the latter", c.StopTimeout, c.ComponentTimeout))
	}
	var err error
	if c.DatabaseURL = env["DATABASE_URL"]; c.DatabaseURL == "" {
		faults = append(faults, errors.New("DATABASE_URL: must be set to the URL of a PostgreSQL database"))
	}
	if c.Mail, c.PublicURL, err = mailing(env); err != nil {
		faults = append(faults, err)
	}
	c.OwnAddresses = []string{c.Addr, c.OpsAddr, WorkersOpsAddr} // the API and the workers may share this machine
	c.TraceEndpoint = env["OTEL_EXPORTER_OTLP_ENDPOINT"]
	if c.Keyring, err = keyring(env["WEFT_MASTER_KEY"], env["WEFT_MASTER_KEYS_OLD"]); err != nil {
		faults = append(faults, err)
	}
	return c, errors.Join(faults...)
}

// ClockToleranceFromEnv returns the clock tolerance that the environment sets, or the default.
func ClockToleranceFromEnv(environ []string) time.Duration {
	c, _ := ConfigFromEnv(environ) // errors of other settings are reported elsewhere
	return cmp.Or(c.ClockTolerance, defaultClockTolerance)
}

func isKnown(name string) bool {
	return slices.Contains(known, name) || slices.ContainsFunc(Settings(), func(s Setting) bool { return s.Name == name })
}

// ParseNetworks parses networks in CIDR notation. A bare address is a network of one.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, addrErr := netip.ParseAddr(text)
			if addrErr != nil {
				return nil, fmt.Errorf("%q is neither an IP address nor a network such as 10.0.0.0/8", text)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		list = append(list, prefix.Masked())
	}
	return list, nil
}

// ReadRoots returns the system's certificate authorities and the authorities in a PEM file.
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
		return nil, fmt.Errorf("%s contains no PEM certificates", path)
	}
	return roots, nil
}

// ParseSchedule parses the delays before the attempts of a callback, such as 0s, 5s, 5m: 1 to 100
// of them.
func ParseSchedule(texts []string) ([]time.Duration, error) {
	list := make([]time.Duration, 0, len(texts))
	for _, text := range texts {
		delay, err := time.ParseDuration(text)
		if err != nil || delay < 0 {
			return nil, fmt.Errorf("%q is not a duration such as 5s", text)
		}
		list = append(list, delay)
	}
	if len(list) == 0 || len(list) > 100 {
		return nil, errors.New("must contain 1 to 100 delays")
	}
	return list, nil
}

// parseDuration parses a duration such as 5s, between lower and upper, inclusive.
func parseDuration(text string, lower, upper time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < lower || d > upper {
		return 0, fmt.Errorf("must be a duration such as 30s, from %v to %v", lower, upper)
	}
	return d, nil
}

// parseRetention parses a duration such as 720h, or whole days such as 30d.
func parseRetention(text string) (time.Duration, error) {
	kept, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		kept = time.Duration(min(n, 100*365)) * 24 * time.Hour
	}
	if err != nil || kept < retention.Least {
		return 0, errors.New("must be a duration such as 30d or 720h, at least 1d")
	}
	return kept, nil
}

// parseAddress returns an address to listen at.
func parseAddress(text string) (string, error) {
	_, port, err := net.SplitHostPort(text)
	if _, unknown := strconv.ParseUint(port, 10, 16); err != nil || unknown != nil {
		return text, errors.New("must be an address and a port, such as 127.0.0.1:8080 or :8080")
	}
	return text, nil
}

func joined(delays []time.Duration) string {
	texts := make([]string, len(delays))
	for i, delay := range delays {
		texts[i] = delay.String()
	}
	return strings.Join(texts, ",")
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

// mailing returns the sender of invitations and the public URL. Without WEFT_SMTP_URL the sender is
// nil.
//
// Links in mails start with WEFT_PUBLIC_URL, never with the address of a request. A client can
// choose that address, so that the link would send its token to the client's server.
func mailing(env map[string]string) (sender *mail.Sender, publicURL string, err error) {
	if public := env["WEFT_PUBLIC_URL"]; public != "" {
		at, err := url.Parse(public)
		if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" || at.Fragment != "" || at.User != nil {
			return nil, "", errors.New("WEFT_PUBLIC_URL: must have the form https://HOST or https://HOST:PORT")
		}
		publicURL = at.Scheme + "://" + at.Host
	}
	if env["WEFT_SMTP_URL"] == "" {
		return nil, publicURL, nil
	}
	if publicURL == "" {
		return nil, "", errors.New("WEFT_PUBLIC_URL: must be set if WEFT_SMTP_URL is set, to the URL at which users reach this service")
	}
	sender, err = mail.NewSender(mail.Options{URL: env["WEFT_SMTP_URL"], From: env["WEFT_SMTP_FROM"]})
	if err != nil {
		return nil, "", fmt.Errorf("WEFT_SMTP_URL, WEFT_SMTP_FROM: %w", err)
	}
	return sender, publicURL, nil
}
