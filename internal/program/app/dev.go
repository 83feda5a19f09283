package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/execution/callback"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/devdb"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/web/contract"
	"github.com/weft-automation/weft/internal/web/settings"
)

// DevConfig holds the settings of `weft dev`.
type DevConfig struct {
	Addr, OpsAddr string
	Expose        bool   // other machines may reach Addr and OpsAddr; clients then have the limits of production
	ProxyAddr     string // of the proxy that signs requests; "": no proxy
	DataDir       string
	AllowNetworks []netip.Prefix
	EgressRoots   *x509.CertPool  // nil: the system's roots
	Schedule      []time.Duration // delay before each attempt of a callback; nil: the default
	Chain         bool            // also run a private EVM chain
	Plan          string          // "": enterprise for a new workspace; an existing one keeps its plan
	Program       string          // command that the user ran, for the examples printed
	DatabaseURL   string          // "": a private PostgreSQL in DataDir
	Log           *slog.Logger
	Stdout        io.Writer
	Verbose       bool              // print everything that a user can try, not only the first steps
	Progress      func(step string) // called with each step of the start, then with ""; nil: not reported
}

// CredentialsFile is the file in the data folder from which clients read their credentials. It has
// mode 0600 and exists once /readyz returns 200.
const CredentialsFile = "credentials.json"

// devWorkspace is the name of the one workspace of `weft dev`.
const devWorkspace = "dev"

// Dev runs all of Weft in one process until ctx is done: a private PostgreSQL, migrations, a
// workspace with a key, a demo upstream, API and workers, and an EVM chain if dev.Chain is set.
func Dev(ctx context.Context, dev DevConfig) error {
	for _, addr := range []string{dev.Addr, dev.OpsAddr} { // before creating anything
		if err := dev.checkAddress(addr); err != nil {
			return err
		}
	}
	local := localServices{}
	if err := dev.bindProxy(ctx, &local); err != nil {
		return err
	}
	defer local.closeProxy()
	if err := os.MkdirAll(dev.DataDir, 0o755); err != nil {
		return fmt.Errorf("create the data folder: %w", err)
	}
	cfg := dev.config()
	var err error
	if cfg.Keyring, err = keyringOfFolder(dev.DataDir); err != nil {
		return err
	}
	if dev.Chain { // before the database, because anvil may have to be downloaded
		chain, err := dev.startChain(ctx)
		if err != nil {
			return err
		}
		defer dev.stopChain(chain)
		local.chain = chain.Addr()
	}
	go func() { _, _ = contract.Load() }() // in parallel with the start of the database
	if cfg.DatabaseURL == "" {
		database, err := startPrivateDatabase(ctx, dev)
		if err != nil {
			return err
		}
		defer stopPrivateDatabase(database, dev.Log)
		cfg.DatabaseURL = database.DSN("weft")
	} else if err := dev.migrate(ctx, cfg.DatabaseURL); err != nil {
		return unlessStopped(ctx, err)
	}
	upstream, err := dev.startDemo()
	if err != nil {
		return err
	}
	defer upstream.Close()
	local.demo = upstream.Addr
	cfg.AllowHosts, cfg.OwnAddresses = local.hosts(), dev.ownAddresses(local)
	return dev.run(ctx, cfg, local)
}

// config returns the settings of the service that the flags determine.
func (dev DevConfig) config() Config {
	cfg := Config{
		Addr: dev.Addr, OpsAddr: dev.OpsAddr, Work: true, Workers: defaultWorkers,
		AllowNetworks: dev.AllowNetworks, EgressRoots: dev.EgressRoots, CallbackSchedule: dev.Schedule,
		DatabaseURL: dev.DatabaseURL, StopTimeout: 20 * time.Second, // the user waits for the shell prompt
	}
	if !dev.Expose {
		cfg.ConnectionsPerAddress = mostConnections // all clients are on this machine
	}
	if cfg.CallbackSchedule == nil {
		cfg.CallbackSchedule = callback.DefaultSchedule()
	}
	return cfg
}

// run starts the service. The credentials are written after the addresses are bound and before the
// service reports ready.
func (dev DevConfig) run(ctx context.Context, cfg Config, local localServices) error {
	found := dev.findCredentials(ctx, cfg.DatabaseURL)
	cfg.ticket = &settings.Ticket{}
	var c client.Credentials
	cfg.beforeServing = func(ctx context.Context, a *App) (err error) {
		if c, err = found(); err != nil {
			return err
		}
		c.BaseURL, c.AllowNetworks, c.CallbackSchedule = a.URL(), dev.AllowNetworks, nil
		for _, delay := range dev.Schedule {
			c.CallbackSchedule = append(c.CallbackSchedule, delay.String())
		}
		if local.chain != "" {
			if err := setChainVariables(ctx, a.variables, c.WorkspaceID, local.chain); err != nil {
				return err
			}
		}
		dev.step("adding examples")
		if c.Workflows, err = dev.examples(ctx, a.workflows, c.WorkspaceID, local.demo); err != nil {
			return err
		}
		return writeFile(filepath.Join(dev.DataDir, CredentialsFile), c)
	}
	a, err := Start(ctx, cfg, dev.Log)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer a.Stop(context.WithoutCancel(ctx))
	tuneMemory()
	stopProxy, err := local.serveProxy(ctx, c, dev.Log)
	if err != nil {
		return err
	}
	defer stopProxy()
	local.open = openLink(a.URL(), cfg.ticket.Issue(c.AdminEmail, time.Now()))
	dev.printWelcome(a, local)
	select {
	case <-ctx.Done():
		fmt.Fprintln(dev.Stdout, "\nStopping: executions in flight have up to 20 s to finish.")
		return nil
	case err := <-a.Failed():
		return err
	}
}

// startPrivateDatabase starts a PostgreSQL server whose database "weft" has this binary's schema.
// It creates the database on the first start.
func startPrivateDatabase(ctx context.Context, dev DevConfig) (*devdb.Server, error) {
	dev.step("starting PostgreSQL")
	database, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(dev.DataDir, "postgres"), Log: dev.Log})
	if err != nil {
		return nil, fmt.Errorf("start the private PostgreSQL: %w", err)
	}
	err = dev.migrate(ctx, database.DSN("weft"))
	if postgres.Raised(err, "3D000") { // the database does not exist
		if err = database.CreateDatabase(ctx, "weft"); err == nil {
			err = dev.migrate(ctx, database.DSN("weft"))
		}
	}
	if err != nil {
		stopPrivateDatabase(database, dev.Log)
		return nil, err
	}
	return database, nil
}

// migrate is Migrate for a start: it waits for a database that is unavailable.
func (dev DevConfig) migrate(ctx context.Context, dsn string) error {
	dev.step("migrating")
	migrate := func() error { return Migrate(ctx, dsn) }
	return awaitDatabase(ctx, dev.Log, migrate(), migrate)
}

func stopPrivateDatabase(database *devdb.Server, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := database.Stop(ctx); err != nil {
		log.Warn("the private PostgreSQL did not stop cleanly", "error", err)
	}
}

// devOwner is the e-mail address of the owner of the workspace of `weft dev`.
const devOwner = "owner@weft.localhost"

// findCredentials starts looking for the credentials in parallel with the rest of the startup. The
// returned function waits for the result.
func (dev DevConfig) findCredentials(ctx context.Context, dsn string) func() (client.Credentials, error) {
	var c client.Credentials
	wait := inBackground(func() error {
		pool, err := postgres.Open(ctx, dsn, "dev", postgres.System, 2)
		if err != nil {
			return err
		}
		defer pool.Close()
		read := func() (err error) { c, err = dev.credentials(ctx, pool); return err }
		return awaitDatabase(ctx, dev.Log, read(), read)
	})
	return func() (client.Credentials, error) { err := wait(); return c, err }
}

// credentials returns the credentials of the file. It replaces credentials that the database no
// longer accepts. BaseURL is set later.
func (dev DevConfig) credentials(ctx context.Context, pool *pgxpool.Pool) (client.Credentials, error) {
	workspaceID, err := dev.workspace(ctx, pool)
	if err != nil {
		return client.Credentials{}, err
	}
	c, err := client.ReadCredentials(filepath.Join(dev.DataDir, CredentialsFile))
	if err != nil || c.WorkspaceID != workspaceID {
		c = client.Credentials{WorkspaceID: workspaceID}
	}
	if c.APISecret == "" || !auth.Usable(ctx, pool, c.APIKey) {
		key, err := auth.NewKeys(pool).Create(ctx, auth.CreateParams{WorkspaceID: workspaceID, Label: "weft dev"})
		if err != nil {
			return client.Credentials{}, fmt.Errorf("create the key of weft dev: %w", err)
		}
		c.APIKey, c.APISecret = key.APIKey, key.APISecret
	}
	if c.AdminPassword == "" || !dev.signsIn(ctx, pool, c) {
		c.AdminEmail = devOwner
		// An existing owner keeps the password, which is then missing from the credentials.
		if c.AdminPassword, err = makeDevOwner(ctx, pool, workspaceID); err != nil {
			return client.Credentials{}, err
		}
	}
	return c, nil
}

// passwordMark is the file that records that the password was verified.
const passwordMark = "password.mark"

// signsIn reports whether the password of the credentials is still valid. If possible it relies on
// the mark, because verifying a password takes longer than the start of PostgreSQL.
func (dev DevConfig) signsIn(ctx context.Context, pool *pgxpool.Pool, c client.Credentials) bool {
	path := filepath.Join(dev.DataDir, passwordMark)
	last, _ := os.ReadFile(path) // without the file the password is verified
	mark := person.Recognise(ctx, pool, c.AdminEmail, c.AdminPassword, string(last))
	if mark != "" && mark != string(last) {
		_ = os.WriteFile(path, []byte(mark), 0o600) // on failure, the next start verifies the password again
	}
	return mark != ""
}

// makeDevOwner creates the owner and returns the new password. If the owner exists, makeDevOwner
// changes neither password nor role, and returns "".
func makeDevOwner(ctx context.Context, pool *pgxpool.Pool, workspaceID uuid.UUID) (password string, err error) {
	if has, _, err := person.HasAccount(ctx, pool, devOwner); err != nil || has {
		return "", err
	}
	password = rand.Text()
	_, err = person.CreateOwner(ctx, pool, workspaceID, person.Account{Email: devOwner, Name: "Owner", Password: password})
	return password, err
}

// workspace returns the workspace of weft dev, creating it on the first start. It changes the plan
// of an existing workspace only if dev.Plan is set, because an operator may have changed plan and
// limits.
func (dev DevConfig) workspace(ctx context.Context, pool *pgxpool.Pool) (uuid.UUID, error) {
	have, err := db.New().WorkspaceGetByName(ctx, pool, devWorkspace)
	if postgres.NotFound(err) {
		have.Plan = cmp.Or(dev.Plan, string(plan.Enterprise))
		have.ID, err = workspace.Create(ctx, pool, workspace.CreateParams{Name: devWorkspace, Plan: plan.Name(have.Plan)})
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("find or create the workspace of weft dev: %w", err)
	}
	books := billing.Books{}
	if dev.Plan != "" && have.Plan != dev.Plan {
		have.Plan = dev.Plan
		err := books.SetPlan(ctx, pool, billing.Plan{WorkspaceID: have.ID, Name: plan.Name(dev.Plan)})
		if err != nil {
			return uuid.Nil, err
		}
	}
	if plan.Name(have.Plan) == plan.Enterprise {
		// The reference makes the grant happen once.
		_, err = books.Grant(ctx, pool, billing.Grant{WorkspaceID: have.ID, Amount: devCredits, Reference: "opening"})
	}
	return have.ID, err
}

// devCredits are the credits granted to `weft dev` on the enterprise plan, which has no included
// credits.
const devCredits = 1_000_000 * credit.Scale

// writeFile replaces a file atomically.
func writeFile(path string, content any) error {
	data, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(next, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return os.Rename(next, path)
}
