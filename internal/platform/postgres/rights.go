package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// riverRights grants requests the rights that they need on the queue and revokes all others.
// Requests insert jobs. For an insert, River's statement also needs to read the row and to
// update it after a conflict. Requests see only the jobs of their workspaces.
const riverRights = `
	REVOKE ALL ON ALL TABLES IN SCHEMA river FROM weft_api;
	REVOKE ALL ON ALL SEQUENCES IN SCHEMA river FROM weft_api;
	GRANT SELECT, UPDATE (kind), INSERT (id, args, created_at, kind, max_attempts, metadata, priority, queue,
		scheduled_at, state, tags, unique_key, unique_states) ON river.river_job TO weft_api;
	GRANT USAGE ON SEQUENCE river.river_job_id_seq TO weft_api;
	DROP POLICY IF EXISTS of_workspace ON river.river_job;
	DROP POLICY IF EXISTS of_system ON river.river_job;
	CREATE POLICY of_workspace ON river.river_job TO weft_api
		USING (args ->> 'workspaceId' = ANY ((SELECT string_to_array(current_setting('weft.workspaces', true), ','))::text[]));
	CREATE POLICY of_system ON river.river_job TO weft_system USING (true);
	ALTER TABLE river.river_job ENABLE ROW LEVEL SECURITY`

// riverGranted are the rights of requests after riverRights, as read from the catalogue.
const riverGranted = "INSERT river_job args,INSERT river_job created_at,INSERT river_job id,INSERT river_job kind,INSERT river_job max_attempts," +
	"INSERT river_job metadata,INSERT river_job priority,INSERT river_job queue,INSERT river_job scheduled_at,INSERT river_job state," +
	"INSERT river_job tags,INSERT river_job unique_key,INSERT river_job unique_states," +
	"SELECT river_job,UPDATE river_job kind,USAGE river_job_id_seq"

// riverPolicies are the policies of the queue, as read from the catalogue.
const riverPolicies = `of_system {weft_system} true,` +
	`of_workspace {weft_api} ((args ->> 'workspaceId'::text) = ANY (( SELECT string_to_array(current_setting('weft.workspaces'::text, true), ','::text) AS string_to_array)::text[]))`

// databaseRights revokes rights that PostgreSQL grants to PUBLIC: creating temporary tables and,
// in databases from before version 15, creating any table. A table that a caller creates could
// hide one of Weft's tables.
const databaseRights = `DO $$ BEGIN
	EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC, weft_api, weft_system', current_database());
	EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, weft_api, weft_system', current_schema());
END $$`

// Conditions that are true once the rights are set.
const (
	riverRightsSet = `(SELECT relrowsecurity FROM pg_class WHERE oid = 'river.river_job'::regclass)
	AND (SELECT string_agg(concat_ws(' ', polname, polroles::regrole[], pg_get_expr(polqual, polrelid)), ',' ORDER BY polname)
		FROM pg_policy WHERE polrelid = 'river.river_job'::regclass) = $policies$` + riverPolicies + `$policies$
	AND ARRAY(SELECT concat_ws(' ', p.privilege_type, o.name, o.attribute, NULLIF(p.is_grantable, false)) COLLATE "C"
		FROM (SELECT relname AS name, NULL AS attribute, relacl AS acl FROM pg_class WHERE relnamespace = 'river'::regnamespace
			UNION ALL SELECT c.relname, a.attname, a.attacl FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			WHERE c.relnamespace = 'river'::regnamespace) o, aclexplode(o.acl) p
		WHERE p.grantee = 'weft_api'::regrole ORDER BY 1) = '{` + riverGranted + `}'`
	databaseRightsSet = `NOT EXISTS (SELECT FROM unnest(ARRAY['weft_api', 'weft_system']) role
		WHERE has_database_privilege(role, current_database(), 'TEMPORARY') OR has_schema_privilege(role, current_schema(), 'CREATE'))`
)

// setRights sets the rights that migrations can't set permanently: the rights on the queue's
// tables, which River's migrations create, and the rights on the database, which a copy of the
// database loses. Each set of rights changes in one transaction, so that no request is refused
// in between.
func setRights(ctx context.Context, conn *pgx.Conn) error {
	if !holds(ctx, conn, riverRightsSet) {
		err := withLockTimeout(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, riverRights)
			return err
		})
		if err != nil {
			return fmt.Errorf("set the rights on the queue: %w", err)
		}
	}
	if holds(ctx, conn, databaseRightsSet) {
		return nil
	}
	_, err := conn.Exec(ctx, databaseRights)
	if _, refused := errors.AsType[*pgconn.PgError](err); err != nil && !refused {
		return fmt.Errorf("revoke rights on the database: %w", err)
	}
	if holds(ctx, conn, databaseRightsSet) {
		return nil
	}
	var cure string
	if err := conn.QueryRow(ctx, `SELECT format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC; REVOKE CREATE ON SCHEMA %I FROM PUBLIC',
		current_database(), current_schema())`).Scan(&cure); err != nil {
		return fmt.Errorf("revoke rights on the database: %w", err)
	}
	return fmt.Errorf("Weft's roles can create tables in this database, and its user isn't allowed to change that; as the owner of the database, run: %s", cure)
}
