package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/devdb"
	"github.com/weft-automation/weft/internal/platform/clock"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/program/app"
	"github.com/weft-automation/weft/internal/program/rotation"
	"github.com/weft-automation/weft/internal/secret/seal"
)

func (d *doctorCommand) checkMasterKey(_ context.Context, s *session) []finding {
	const generate = "make one with: openssl rand -base64 32"
	text, where := s.getenv("WEFT_MASTER_KEY"), "WEFT_MASTER_KEY"
	if text == "" && d.DatabaseURL != "" {
		return []finding{{wrong, "WEFT_MASTER_KEY is not set; serve and work need it", generate}}
	}
	if text == "" {
		where = filepath.Join(d.DataDir, "master.key")
		raw, err := os.ReadFile(where)
		if errors.Is(err, fs.ErrNotExist) {
			return []finding{{fine, "no master key yet; the first `weft dev` creates it", ""}}
		}
		if err != nil {
			return []finding{{wrong, err.Error(), "run as the user who owns the data folder"}}
		}
		if text = strings.TrimSpace(string(raw)); readableByOthers(where) {
			return []finding{{wrong, where + " can be read by other users", "chmod 600 " + where}}
		}
	}
	text, _, _ = strings.Cut(text, "\n") // the primary key; older ones follow
	if _, err := seal.ParseKey(text); err != nil {
		return []finding{{wrong, where + ": " + err.Error(), generate}}
	}
	return []finding{{fine, where + " contains a valid key", ""}}
}

func readableByOthers(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o077 != 0
}

func (d *doctorCommand) checkDataFolder(context.Context, *session) []finding {
	info, err := os.Stat(d.DataDir)
	switch {
	case d.DatabaseURL != "":
		return []finding{{fine, "not needed: DATABASE_URL is set", ""}}
	case errors.Is(err, fs.ErrNotExist):
		return []finding{{fine, d.DataDir + " does not exist yet; the first `weft dev` creates it", ""}}
	case err != nil:
		return []finding{{wrong, err.Error(), "choose another folder with --data-dir"}}
	case !info.IsDir():
		return []finding{{wrong, d.DataDir + " is not a folder", "choose another folder with --data-dir"}}
	}
	probe, err := os.CreateTemp(d.DataDir, ".doctor-")
	if err != nil {
		return []finding{{wrong, "cannot write to " + d.DataDir, "run as the user who owns the folder, or choose another folder with --data-dir"}}
	}
	probe.Close()
	_ = os.Remove(probe.Name())
	return []finding{{fine, d.DataDir + " exists and is writable", ""}}
}

func (d *doctorCommand) checkPostgres(ctx context.Context, s *session) []finding {
	dsn := d.DatabaseURL
	if dsn == "" {
		running, ok := devdb.Running(d.privateFolder(), privateDatabase)
		if !ok {
			return checkPrograms(ctx)
		}
		dsn = running
	}
	if refused, ok := errors.AsType[*postgres.SessionError](postgres.CheckPooler(ctx, dsn)); ok {
		return []finding{{wrong, refused.Error(), "see \"Connection poolers\" at /docs/database"}}
	}
	pool, err := postgres.Open(ctx, dsn, "doctor", postgres.Owner, 1)
	if err != nil {
		return []finding{{wrong, err.Error(), "use the form postgres://user:password@host:5432/name"}}
	}
	defer pool.Close()
	var version int
	var now time.Time
	asked := time.Now()
	if err := pool.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, clock_timestamp()").Scan(&version, &now); err != nil {
		return []finding{{wrong, "cannot connect: " + err.Error(), "start the server, and check host, user, password and name in DATABASE_URL"}}
	}
	all := []finding{{fine, fmt.Sprintf("answers, version %d.%d", version/10000, version%10000), ""}}
	if version < 150000 {
		all[0] = finding{wrong, fmt.Sprintf("version %d is too old", version/10000), "Weft needs PostgreSQL 15 or later"}
	}
	all = append(all, compareClocks(asked, now, app.ClockToleranceFromEnv(s.environ))...)
	if err := postgres.CheckSchema(ctx, pool); err != nil {
		return append(all, finding{wrong, err.Error(), d.cure("weft migrate (weft dev does it automatically)", "weft migrate")})
	}
	all = append(all, finding{fine, "the schema matches this binary", ""}, checkRoles(ctx, dsn))
	all = append(all, checkSettings(ctx, pool)...)
	if now, err := db.New().InstallationGet(ctx, pool); err == nil && now.QuarantinedAt != nil {
		all = append(all, finding{wrong, fmt.Sprintf("the database is in quarantine since %s: %s", now.QuarantinedAt.UTC().Format(time.DateTime), *now.Reason), cureOfQuarantine})
	}
	return all
}

const cureOfQuarantine = "weft quarantine status shows what is unfinished; weft quarantine release releases the database"

// compareClocks compares this machine's clock with PostgreSQL's. sentAt is when the query was sent,
// dbTime the time in its response.
func compareClocks(sentAt, dbTime time.Time, tolerance time.Duration) []finding {
	var here clock.Clock
	here.Observe(sentAt, time.Now(), dbTime)
	off := here.Offset().Round(time.Millisecond)
	text := fmt.Sprintf("the database's clock is %v ahead of this machine's", off)
	if off < 0 {
		text = fmt.Sprintf("the database's clock is %v behind this machine's", -off)
	}
	switch {
	case off.Abs() > tolerance:
		return []finding{{wrong, fmt.Sprintf("%s; if the clocks differ by more than %v (WEFT_CLOCK_TOLERANCE), weft serve and weft work start no work", text, tolerance), "synchronise both clocks by NTP"}}
	case off.Abs() > time.Second:
		return []finding{{doubt, text, "synchronise both clocks by NTP"}}
	}
	return nil
}

// system opens the database as the workers do. It returns nil if that is not possible, which checkPostgres
// reports.
func (d *doctorCommand) system(ctx context.Context) *pgxpool.Pool {
	dsn := d.DatabaseURL
	if dsn == "" {
		dsn, _ = devdb.Running(d.privateFolder(), privateDatabase)
	}
	if dsn == "" {
		return nil
	}
	pool, _ := postgres.Open(ctx, dsn, "doctor", postgres.System, 1)
	return pool
}

// checkSealedValues checks whether the master keys open the stored values. If an error prevents
// this check, an earlier check has reported it.
func (d *doctorCommand) checkSealedValues(ctx context.Context, s *session) []finding {
	var ring *seal.Keyring
	var err error
	cure := "restart serve and work with the missing key in WEFT_MASTER_KEY, or in WEFT_MASTER_KEYS_OLD"
	if d.DatabaseURL != "" || s.getenv("WEFT_MASTER_KEY") != "" {
		ring, err = app.KeyringFromEnv(s.environ)
	} else {
		ring, err = app.KeyFileOf(d.DataDir).Keyring()
		cure = "put the missing key back into " + filepath.Join(d.DataDir, "master.key") + ", on a separate line"
	}
	pool := d.system(ctx)
	if err != nil || pool == nil {
		return nil
	}
	defer pool.Close()
	if right, err := rotation.KeyMatches(ctx, pool, ring); err == nil && !right {
		text := fmt.Sprintf("the given master key (%s) is not the master key of the installation: serve and work do not become ready with it", strings.Join(ring.Fingerprints(), ", "))
		return []finding{{wrong, text, cure}}
	}
	keys, err := rotation.MissingKeys(ctx, pool, ring)
	switch {
	case err != nil:
		return nil
	case len(keys) > 0:
		text := fmt.Sprintf("values are encrypted with the master key %s, which is not one of the given keys (%s)", strings.Join(keys, ", "), strings.Join(ring.Fingerprints(), ", "))
		return []finding{{wrong, text, cure}}
	}
	return []finding{{fine, "the master key decrypts the stored values", ""}}
}

// checkRoles checks that the roles of serve and work can be assumed.
func checkRoles(ctx context.Context, dsn string) finding {
	for _, role := range []postgres.Role{postgres.API, postgres.System} {
		pool, err := postgres.Open(ctx, dsn, "doctor", role, 1)
		if err == nil {
			err = pool.Ping(ctx)
			pool.Close()
		}
		if err != nil {
			return finding{wrong, fmt.Sprintf("cannot work as %s: %v", role, err), "as an administrator: GRANT weft_api, weft_system TO the user of DATABASE_URL"}
		}
	}
	return finding{fine, "the database roles can be used", ""}
}

// checkCredits returns the errors that the last audit found, and whether the hourly audit is
// complete.
func (d *doctorCommand) checkCredits(ctx context.Context, _ *session) []finding {
	pool := d.system(ctx)
	if pool == nil {
		return nil
	}
	defer pool.Close()
	age, err := db.New().InstallationAuditAge(ctx, pool)
	if err != nil {
		return nil // earlier checks report the reason
	}
	if _, err := db.New().InstallationGet(ctx, pool); postgres.NotFound(err) { // no process has used the database yet
		return []finding{{fine, "no audit has run yet; the workers audit every hour", ""}}
	}
	last := time.Duration(age.Audited * float64(time.Second)).Round(time.Minute)
	var all []finding
	if age.Faults > 0 {
		all = append(all, finding{wrong, fmt.Sprintf("the last audit found %s", counted(int(age.Faults), "1 wrong row", "%d wrong rows")), "run weft audit, which lists them"})
	}
	if age.Stopped > 0 {
		all = append(all, finding{wrong, fmt.Sprintf("the billing of %s is stopped", counted(int(age.Stopped), "1 workspace", "%d workspaces")), "correct the rows that weft audit lists, then run weft audit WORKSPACE"})
	}
	if last > billing.AuditStale {
		return append(all, finding{doubt, fmt.Sprintf("the last complete audit is %v old; the workers audit every hour", last), "see the log of the workers for why, or run weft audit"})
	}
	if all != nil {
		return all
	}
	return []finding{{fine, fmt.Sprintf("the last complete audit is %v old", last), ""}}
}

func checkPrograms(ctx context.Context) []finding {
	if dir, version, ok := devdb.Installed(ctx); ok {
		return []finding{{fine, fmt.Sprintf("not running; `weft dev` would start version %s from %s", version, dir), ""}}
	}
	return []finding{{
		doubt, "not running, and its programs are not installed; `weft dev` will try to fetch them",
		"apt-get install postgresql, or PG_BIN=<folder of postgres and initdb>, or DATABASE_URL",
	}}
}

func (d *doctorCommand) checkPorts(ctx context.Context, _ *session) []finding {
	var all []finding
	for _, address := range []string{d.Addr, d.OpsAddr} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		switch {
		case err == nil:
			_ = listener.Close()
			all = append(all, finding{fine, address + " is free", ""})
		case isWeft(ctx, address):
			all = append(all, finding{fine, address + " is served by a Weft", ""})
		default:
			all = append(all, finding{wrong, err.Error(), "stop the program that uses the address, or choose another address with " + d.cure("--addr and --ops-addr", "WEFT_ADDR and WEFT_OPS_ADDR")})
		}
	}
	return all
}

// isWeft reports whether /healthz at the address responds as Weft does.
func isWeft(ctx context.Context, address string) bool {
	answer, err := get(ctx, "http://"+address+"/healthz")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var alive api.Liveness
	return json.NewDecoder(io.LimitReader(answer.Body, 4<<10)).Decode(&alive) == nil && alive.Status.Valid()
}

func (d *doctorCommand) checkService(ctx context.Context, s *session) []finding {
	answer, err := get(ctx, d.baseURL(s)+"/readyz")
	if err != nil {
		return []finding{{silent, "nothing answers at " + d.baseURL(s), "start the service: " + d.cure("weft dev", "weft serve and weft work")}}
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return []finding{{fine, "ready at " + d.baseURL(s), ""}}
	}
	var problem api.Problem
	_ = json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&problem) // for other services only the status is known
	text := fmt.Sprintf("%s answers /readyz with %d", d.baseURL(s), answer.StatusCode)
	if len(problem.Errors) == 0 {
		return []finding{{wrong, strings.TrimSuffix(text+": "+problem.Detail, ": "), "see the log of the service"}}
	}
	var all []finding
	for _, failing := range problem.Errors {
		name := strings.TrimPrefix(failing.Pointer, "/checks/")
		all = append(all, finding{wrong, fmt.Sprintf("%s: the check %q is failing", text, name), cmp.Or(cureOfReadiness[name], "see the log of the service")})
	}
	return all
}

// cureOfReadiness maps readiness checks to fixes.
var cureOfReadiness = map[string]string{
	"database":   "start PostgreSQL, and make sure that the service can reach it and write to it",
	"migrations": "weft migrate, and run the same version everywhere",
	"quarantine": cureOfQuarantine,
	"master_key": "restart the service with the right key in WEFT_MASTER_KEY",
	"clock":      "synchronise the clocks of the service and of PostgreSQL by NTP",
}

// checkClock compares this clock with the service's in whole seconds, as the service does with
// timestamps.
func (d *doctorCommand) checkClock(ctx context.Context, s *session) []finding {
	answer, err := get(ctx, d.baseURL(s)+"/healthz")
	if err != nil {
		return []finding{{doubt, "not compared: the service does not answer", ""}}
	}
	answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return []finding{{doubt, "not compared: the service's answer has no Date", ""}}
	}
	const cure = "synchronise this machine's clock by NTP; a signature is valid for 30 s, and not before its timestamp"
	ahead := time.Now().Unix() - date.Unix()
	switch {
	case ahead > 30 || ahead < -25:
		return []finding{{wrong, fmt.Sprintf("this machine is %d s ahead of the service", ahead), cure}}
	case ahead > 1 || ahead < -1:
		return []finding{{doubt, fmt.Sprintf("this machine is %d s ahead of the service; weft call compensates for the difference, other clients do not", ahead), cure}}
	}
	return []finding{{fine, "the clock agrees with the clock of the service", ""}}
}

func (d *doctorCommand) checkCredentials(ctx context.Context, s *session) []finding {
	file, err := d.file(s)
	if err != nil {
		return []finding{{doubt, err.Error(), ""}}
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		cure := d.cure("weft dev writes the file; to use another file, set --credentials", "for calls from here: weft keys create --workspace NAME --out "+file+"; to use another file, set --credentials")
		return []finding{{doubt, "there is no credentials file " + file, cure}}
	}
	credentials, signer, err := d.signer(s)
	if err != nil {
		return []finding{{doubt, err.Error(), ""}}
	}
	var all []finding
	if readableByOthers(file) {
		all = append(all, finding{wrong, file + " can be read by other users", "chmod 600 " + file})
	}
	weft, err := client.New(credentials.BaseURL, signer, nil)
	if err != nil {
		return append(all, finding{wrong, err.Error(), "set the right base URL with --base-url"})
	}
	_, err = weft.Call(ctx, http.MethodGet, "/v1/sdk/components?limit=1", nil, nil)
	switch problem, refused := errors.AsType[*client.Problem](err); {
	case err == nil:
		return append(all, finding{fine, "accepted: " + credentials.String(), ""})
	case refused && problem.Status >= http.StatusInternalServerError:
		return append(all, finding{wrong, err.Error(), "this is an error of the service; see its log"})
	case refused:
		return append(all, finding{wrong, err.Error(), "create a new key: " + d.cure("weft keys create (weft dev creates a key at its next start)", "weft keys create --workspace NAME --out FILE")})
	}
	return append(all, finding{doubt, "not tested: the service does not answer", ""})
}

// checkEgress tries the restricted network access of callbacks and components.
func (d *doctorCommand) checkEgress(ctx context.Context, s *session) []finding {
	var all []finding
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if s.getenv(name) != "" {
			all = append(all, finding{doubt, name + " is set; callbacks and components do not use it", "allow direct outbound connections, or use a machine that has them"})
		}
	}
	guard := egress.New(egress.Policy{})
	defer guard.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, d.EgressURL, nil)
	if err != nil {
		return append(all, finding{wrong, err.Error(), "set a URL with --egress-url"})
	}
	answer, err := guard.Client(egress.ClientOptions{Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		text := fmt.Sprintf("the public internet cannot be reached (%s)", egress.Class(err))
		return append(all, finding{doubt, text, "fine if callbacks and components stay within WEFT_ALLOW_NETWORKS or --allow-network"})
	}
	answer.Body.Close()
	return append(all, finding{fine, "the public internet can be reached", ""})
}
