package app

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

// startOfDev does what a start of weft dev does to the database, and returns the credentials.
func startOfDev(t *testing.T, dev DevConfig, pool *pgxpool.Pool) client.Credentials {
	t.Helper()
	c, err := dev.credentials(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dev.DataDir, CredentialsFile), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDevKeepsPlanAndPasswordSetByOperator(t *testing.T) {
	t.Parallel()
	pool, dev := pgtest.DB(t), DevConfig{DataDir: t.TempDir()}
	planIs := func(want string) {
		t.Helper()
		var got string
		err := pool.QueryRow(t.Context(), "SELECT concat_ws(' ', plan, custom_rps) FROM workspaces WHERE name = $1", devWorkspace).Scan(&got)
		if err != nil || got != want {
			t.Fatalf("got plan %q (%v), want %q", got, err, want)
		}
	}
	made := startOfDev(t, dev, pool)
	planIs("enterprise")
	if again := startOfDev(t, dev, pool); !reflect.DeepEqual(again, made) || !person.PasswordMatches(t.Context(), pool, made.AdminEmail, made.AdminPassword) {
		t.Fatalf("a restart changed the credentials: %s, owner %s", again, made.AdminEmail)
	}

	rps := int32(3)
	if err := (billing.Books{}).SetPlan(t.Context(), pool, billing.Plan{WorkspaceID: made.WorkspaceID, Name: plan.Growth, RPS: &rps}); err != nil {
		t.Fatal(err)
	}
	const password = "one that nobody else knows"
	if _, err := person.SetPassword(t.Context(), pool, made.AdminEmail, password, false); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c := startOfDev(t, dev, pool)
		if c.AdminPassword != "" || c.AdminEmail != made.AdminEmail || c.APIKey != made.APIKey {
			t.Errorf("the credentials have an outdated password or another key: %s", c)
		}
		planIs("growth 3")
	}
	if !person.PasswordMatches(t.Context(), pool, made.AdminEmail, password) || person.PasswordMatches(t.Context(), pool, made.AdminEmail, made.AdminPassword) {
		t.Error("the password set by the user does not sign in")
	}

	dev.Plan = string(plan.Starter)
	startOfDev(t, dev, pool)
	planIs("starter")
}

func TestDevCreatesNothingIfAnAddressIsUnavailable(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for addr, want := range map[string]string{
		"foo": "missing port", taken.Addr().String(): "is in use",
		"0.0.0.0:0": "0.0.0.0:0 can be reached from other machines, which could then use this Weft over plain HTTP; listen on 127.0.0.1, or add --expose",
		":0":        "add --expose", "[::]:0": "add --expose",
	} {
		for _, dev := range []DevConfig{{Addr: addr, OpsAddr: "127.0.0.1:0"}, {Addr: "127.0.0.1:0", OpsAddr: addr}} {
			dev.DataDir = filepath.Join(t.TempDir(), "weft")
			if err := Dev(context.Background(), dev); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: unexpected error %v", addr, err)
			}
			if _, err := os.Stat(dev.DataDir); err == nil {
				t.Errorf("%s: the data folder was created", addr)
			}
		}
	}
}

func TestDevIsExposedOnlyWithProductionLimits(t *testing.T) {
	for expose, want := range map[bool]int{false: mostConnections, true: 0} {
		dev := DevConfig{Expose: expose}
		if got := dev.config().ConnectionsPerAddress; got != want {
			t.Errorf("exposed %v: %d connections per address, want %d", expose, got, want)
		}
		if err := dev.checkAddress("0.0.0.0:0"); (err == nil) != expose {
			t.Errorf("exposed %v: unexpected error %v", expose, err)
		}
	}
}

func TestProxyAddressInUseIsOneLine(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for _, dev := range []DevConfig{
		{ProxyAddr: address},
		{ProxyAddr: "127.0.0.1:8180", Addr: "0.0.0.0:8180"},
		{ProxyAddr: "127.0.0.1:8190", OpsAddr: ":8190"},
	} {
		var local localServices
		var said strings.Builder
		dev.DataDir, dev.Stdout = t.TempDir(), &said
		if err := dev.bindProxy(t.Context(), &local); err != nil || local.proxy != nil {
			t.Fatalf("%s: %v, listening at %v", dev.ProxyAddr, err, local.proxy)
		}
		if own := dev.ownAddresses(local); !slices.Equal(own, []string{dev.ProxyAddr}) {
			t.Errorf("%s: components must never reach %q", dev.ProxyAddr, own) // it may be another proxy
		}
		dev.printWelcome(&App{}, local)
		if strings.Count(said.String(), "no signing proxy: "+dev.ProxyAddr+" is in use") != 1 {
			t.Errorf("the output is %s", said.String())
		}
	}
	for address, want := range map[string]string{"0.0.0.0:0": "can be reached from other machines", "nonsense": "missing port"} {
		if err := (DevConfig{ProxyAddr: address}).bindProxy(t.Context(), &localServices{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: unexpected error %v", address, err)
		}
	}
}

// If the templates did not match their values, only one line would be printed.
func TestDevPrintsAtMostEightLines(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	credentials := `{"baseUrl":"http://127.0.0.1:1","workflows":{"fanOut":"` + uuid.NewString() + `","chainWatch":"` + uuid.NewString() + `","payout":"` + uuid.NewString() + `"}}`
	if err := os.WriteFile(filepath.Join(folder, CredentialsFile), []byte(credentials), 0o600); err != nil {
		t.Fatal(err)
	}
	said := func(verbose bool) string {
		var said strings.Builder
		networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8")}
		dev := DevConfig{DataDir: folder, ProxyAddr: "127.0.0.1:8081", Program: "weft", AllowNetworks: networks, Verbose: verbose, Stdout: &said}
		dev.printWelcome(&App{}, localServices{demo: "127.0.0.1:1", chain: "127.0.0.1:2", open: openLink("http://[::]:8080", "secret"), proxyBusy: true})
		return said.String()
	}
	short, long := said(false), said(true)
	if lines := strings.Count(short, "\n"); lines > 8 {
		t.Errorf("%d lines: %s", lines, short)
	}
	for text, parts := range map[string][]string{
		short: {"is ready.\n\n  Open      http://127.0.0.1:8080/open?t=secret ", "no signing proxy", "docs at /docs", "weft call RANDOM_UUID", "weft run fanOut", "may reach 10.0.0.0/8, 127.0.0.0/8", "Ctrl-C stops it.", "--verbose"},
		long:  {"is ready", "weft components --credentials", "weft run chainWatch", "weft run payout", "weft call RANDOM_UUID", "http://127.0.0.1:1 ", "http://127.0.0.1:2 ", "may reach 10.0.0.0/8", "Ctrl-C stops it."},
	} {
		for _, part := range parts {
			if strings.Count(text, part) != 1 {
				t.Errorf("the output must have %q once: %s", part, text)
			}
		}
	}
}
