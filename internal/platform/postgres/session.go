package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sessionSettings are startup parameters of every session. They are verified in each new session.
var sessionSettings = map[string]string{
	"timezone": "UTC",
	// Every query has an index. A generic plan that was made while a table was small would
	// otherwise keep scanning the whole table.
	"enable_seqscan": "off",
	// Nor should a plan fetch and sort all rows of an index that is already in order.
	"enable_bitmapscan":                   "off",
	"plan_cache_mode":                     "force_generic_plan",
	"idle_in_transaction_session_timeout": "30s",
	"lock_timeout":                        "5s",
	"statement_timeout":                   "30s",
}

// laterSettings are set after connecting, in the statement that verifies a new session. Existing
// configurations of PgBouncer would reject them as startup parameters. They override what an
// administrator set for the role or the database: all that any of pg_settings' "user" settings can
// break. A server that doesn't know a setting doesn't need it.
var laterSettings = map[string]string{
	// Concurrent changes of one row wait for each other. In other levels, they fail.
	"default_transaction_isolation": "read committed",
	"row_security":                  "on",
	// Idle sessions hold locks and listen. Others end transactions and sessions that work.
	"idle_session_timeout": "0",
	"transaction_timeout":  "0",
	"exit_on_error":        "off",
	// Texts are sent, compared and cast in these forms.
	"client_encoding":             "UTF8",
	"datestyle":                   "ISO, MDY",
	"intervalstyle":               "postgres",
	"bytea_output":                "hex",
	"extra_float_digits":          "1",
	"standard_conforming_strings": "on",
	"array_nulls":                 "on",
	"transform_null_equals":       "off",
	"quote_all_identifiers":       "off",
	// Plans that are left when enable_seqscan and enable_bitmapscan are off.
	"enable_indexscan":         "on",
	"enable_indexonlyscan":     "on",
	"enable_nestloop":          "on",
	"enable_partition_pruning": "on",
	"from_collapse_limit":      "8",
	"join_collapse_limit":      "8",
	// Compiling the first plans of a session can cost half a second of CPU. No query of Weft runs long
	// enough to save that.
	"jit": "off",
	// The queries read few rows. Parallel workers also need shared memory, of which containers have
	// little.
	"max_parallel_workers_per_gather": "0",
	// Tests of plans must hold on every server, whatever its disks cost. The upper pages of an index
	// are in memory.
	"random_page_cost": "1.1",
}

const connectTimeout = 5 * time.Second

// Session configures a session: its name, UTC, and the timeouts.
func Session(config *pgx.ConnConfig, name string) {
	config.ConnectTimeout = connectTimeout
	// pgx allocates the whole cache per connection. Weft has a few hundred statements.
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 256, 0
	config.RuntimeParams["application_name"] = "weft-" + name
	maps.Copy(config.RuntimeParams, sessionSettings)
}

// Connect opens one connection outside of any pool, for a long-lived session: LISTEN, advisory
// locks.
func Connect(ctx context.Context, dsn, name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the database address: %w", hideDSN(err))
	}
	Session(config, name)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := setUp(ctx, conn, false); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// SessionError reports a session that Weft must not use. Unavailable returns true for it.
type SessionError struct{ Problem string }

func (e *SessionError) Error() string { return e.Problem }

var errShared = &SessionError{"the connection pooler between Weft and PostgreSQL shares server sessions between clients. " +
	"Set pool_mode = session and server_reset_query = DISCARD ALL in PgBouncer, or connect to PostgreSQL directly"}

// setUp verifies a new session. A pooler may have dropped its startup parameters, so setUp sets
// the parameters that differ. It returns a SessionError if the session still has a different
// role or different settings, or if a pooler shares the session with other clients. If locate is
// set, setUp returns the server of the session.
func setUp(ctx context.Context, conn *pgx.Conn, locate bool) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	now, err := inspect(ctx, conn, append(slices.Collect(maps.Keys(laterSettings)), "role", "search_path", "synchronous_commit"))
	if err != nil {
		return Server{}, err
	}
	if !now.direct || now.problem != "" {
		if err := setAgain(ctx, conn, now); err != nil {
			return Server{}, err
		}
	}
	if !locate {
		return Server{}, nil
	}
	return place(ctx, conn) // a separate statement: it depends on the settings
}

// setAgain sets all settings of a session that lacks some of them, or that goes through a pooler.
func setAgain(ctx context.Context, conn *pgx.Conn, now sessionState) error {
	mark := ""
	if !now.direct {
		if now.mark != "" {
			return errShared
		}
		mark = rand.Text()
		conn.PgConn().CustomData()[markKey] = mark
	}
	names, values := wanted(conn)
	_, err := conn.Exec(ctx, "SELECT set_config(name, value, false) FROM "+wantedSettings+" WHERE name = $3 OR current_setting(name, true) IS NOT NULL",
		pgx.QueryExecModeExec, append(names, markKey), append(values, mark), markKey)
	if err != nil {
		return fmt.Errorf("set up the session: %w", err)
	}
	return verify(ctx, conn)
}

// place returns the server of a session. It fails in a database without Weft's schema.
func place(ctx context.Context, conn *pgx.Conn) (on Server, err error) {
	err = conn.QueryRow(ctx, "SELECT place_of_database(), timeline_of_database(), recovered_position()", pgx.QueryExecModeExec).
		Scan(&on.Place, &on.Timeline, &on.Recovered)
	if err != nil {
		return on, fmt.Errorf("verify the session: %w", err)
	}
	return on, nil
}

// verify returns a SessionError if the session is not in the state in which setUp left it.
func verify(ctx context.Context, conn *pgx.Conn) error {
	now, err := inspect(ctx, conn, nil)
	if err != nil {
		return err
	}
	if mark, _ := conn.PgConn().CustomData()[markKey].(string); !now.direct && (now.mark == "" || now.mark != mark) {
		return errShared
	}
	if now.problem != "" {
		return &SessionError{now.problem}
	}
	return nil
}

// markKey is the setting that holds a random mark in each session that goes through a pooler. If
// a client finds the mark of a different client, or no longer finds its own mark, the session is
// shared.
const markKey = "weft.session"

// sessionState is the result of inspect.
type sessionState struct {
	direct  bool   // whether there is no pooler in between: a pooler issues its own cancel keys
	mark    string // of the client that last set up the session
	problem string // the differences from the settings of Session; "" if it has them
}

// wantedSettings are the names and values in the arrays $1 and $2, and two settings that depend on
// the database and how it is set up.
//
// search_path names the schema that has Weft's tables. In a new database, that is public, unless the
// user can't create tables there or DATABASE_URL sets the path. A role or database may not turn
// synchronous_commit off: a crash of PostgreSQL would lose acknowledged commits of this service alone.
const wantedSettings = `(SELECT * FROM unnest($1::text[], $2::text[]) AS given (name, value)
	UNION ALL SELECT 'search_path', COALESCE(
		(SELECT '"' || replace(n.nspname, '"', '""') || '"' FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE c.relname = 'schema_migrations' AND c.relkind = 'r'
			  AND EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attname = 'checksum')
			ORDER BY n.nspname <> 'public', n.nspname LIMIT 1),
		(SELECT '"public"' FROM pg_catalog.pg_settings s JOIN pg_catalog.pg_namespace n ON n.nspname = 'public'
			WHERE s.name = 'search_path' AND s.source <> 'client' AND has_schema_privilege(n.oid, 'CREATE')),
		current_setting('search_path')) WHERE 'search_path' <> ALL ($1::text[])
	UNION ALL SELECT 'synchronous_commit', 'on' WHERE current_setting('synchronous_commit') = 'off' AND EXISTS (
		SELECT FROM pg_catalog.pg_settings WHERE name = 'synchronous_commit' AND source IN ('global', 'database', 'user', 'database user'))) AS s (name, value)`

// replicaProblem describes the setting that disables all triggers, which only a superuser can reset.
const replicaProblem = `SELECT 'session_replication_role is replica instead of origin' WHERE current_setting('session_replication_role') = 'replica'`

// inspect reads a session's role and settings in one round trip. It first sets those of the wanted
// settings that set names.
func inspect(ctx context.Context, conn *pgx.Conn, set []string) (now sessionState, err error) {
	names, values := wanted(conn)
	var pid uint32
	var user string
	var differ []string
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid(), current_user::text, COALESCE(current_setting($3, true), ''),
		ARRAY(SELECT format('%s is %s instead of %s', name, COALESCE(current_setting(name, true), 'not set'), value)
			FROM `+wantedSettings+`
			WHERE CASE WHEN current_setting(name, true) IS NULL THEN value WHEN name = ANY ($4::text[]) THEN set_config(name, value, false)
				ELSE current_setting(name, true) END IS DISTINCT FROM value
			UNION ALL `+replicaProblem+`)`,
		pgx.QueryExecModeExec, names, values, markKey, set).Scan(&pid, &user, &now.mark, &differ)
	if err != nil {
		return now, fmt.Errorf("verify the session: %w", err)
	}
	now.direct = pid == conn.PgConn().PID()
	if role := conn.Config().RuntimeParams["role"]; role != "" && role != user {
		differ = append(differ, fmt.Sprintf("current_user is %s instead of %s", user, role))
	}
	if len(differ) > 0 {
		now.problem = "the database session does not have Weft's settings: " + strings.Join(differ, ", ")
	}
	return now, nil
}

// wanted returns the settings that the session of conn must have.
func wanted(conn *pgx.Conn) (names, values []string) {
	params := conn.Config().RuntimeParams
	for _, name := range append(slices.Sorted(maps.Keys(sessionSettings)), "search_path") { // search_path: of DATABASE_URL
		if value, ok := params[name]; ok {
			names, values = append(names, name), append(values, value)
		}
	}
	names, values = append(names, "role"), append(values, cmp.Or(params["role"], "none"))
	for name, value := range laterSettings {
		names, values = append(names, name), append(values, value)
	}
	return names, values
}

// CheckSession verifies a session of the pool, and closes it if it can't be used.
func CheckSession(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := verify(ctx, conn.Conn()); err != nil {
		_ = conn.Conn().Close(ctx)
		return err
	}
	return nil
}

// CheckPooler returns a SessionError if there is a connection pooler at dsn that Weft can't work
// through. It needs two concurrent connections to detect whether the pooler shares sessions.
func CheckPooler(ctx context.Context, dsn string) error {
	first, err := Connect(ctx, dsn, "check")
	if err != nil {
		return explain(err)
	}
	defer func() { _ = first.Close(context.WithoutCancel(ctx)) }()
	if first.PgConn().CustomData()[markKey] == nil {
		return nil // no pooler
	}
	second, err := Connect(ctx, dsn, "check")
	if err != nil {
		return explain(err)
	}
	defer func() { _ = second.Close(context.WithoutCancel(ctx)) }()
	return verify(ctx, first)
}

// explain turns PgBouncer's rejection of startup parameters into an error that says what to do.
func explain(err error) error {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.HasPrefix(refusal.Message, "unsupported startup parameter") {
		return err
	}
	names := []string{"role"}
	for name := range sessionSettings {
		if name != "timezone" { // PgBouncer forwards this parameter
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return &SessionError{fmt.Sprintf("the connection pooler rejects Weft's settings (%s). Weft sets them again after it has connected. "+
		"Add to pgbouncer.ini: ignore_startup_parameters = %s", refusal.Message, strings.Join(names, ","))}
}

// CheckWritable returns an error if the database doesn't respond or is read-only.
func CheckWritable(ctx context.Context, db DB) error {
	var standby, readOnly bool
	err := db.QueryRow(ctx, "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean").Scan(&standby, &readOnly)
	switch {
	case err != nil:
		return err
	case standby:
		return errors.New("the database is read-only: it is a standby")
	case readOnly:
		return errors.New("the database is read-only: default_transaction_read_only is on")
	}
	return nil
}
