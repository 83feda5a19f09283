package chaos

// rules are the invariants that SQL can check (conformance/RELIABILITY.md). Each query
// returns one line of text for each breach.
var rules = []struct{ name, query string }{
	{"I2 every execution is final", `
		SELECT id || ' is ' || status || ', worker ' || COALESCE(worker_id::text, 'none') || ', job ' || job_id
		FROM component_executions WHERE finished_at IS NULL`},
	{"I3 every final execution has one posting of its usage, a stage none", `
		SELECT e.id || ' used ' || e.usage || ', posted ' || COALESCE(p.usage::text, 'nothing')
		FROM component_executions e
		LEFT JOIN credit_postings p ON p.workspace_id = e.workspace_id AND p.reference = e.id::text AND p.kind = 'EXECUTION'
		WHERE e.finished_at IS NOT NULL AND CASE WHEN e.run_id IS NULL THEN p.usage IS DISTINCT FROM e.usage ELSE p.usage IS NOT NULL END`},
	{"I3 every final run has one posting of its usage, and no other has", `
		SELECT r.id || ' is ' || r.status || ', used ' || r.usage || ', posted ' || COALESCE(p.usage::text, 'nothing')
		FROM workflow_runs r LEFT JOIN credit_postings p ON p.workspace_id = r.workspace_id AND p.reference = r.id::text AND p.kind = 'RUN'
		WHERE CASE WHEN r.finished_at IS NULL THEN p.usage IS NOT NULL ELSE p.usage IS DISTINCT FROM r.usage END`},
	{"I3 no posting without a final execution, none twice", `
		SELECT p.reference || ' posted ' || count(*) || ' times'
		FROM credit_postings p
		LEFT JOIN component_executions e ON p.workspace_id = e.workspace_id AND p.reference = e.id::text AND e.finished_at IS NOT NULL
		WHERE p.kind = 'EXECUTION' GROUP BY p.reference HAVING count(*) <> 1 OR count(e.id) <> 1`},
	{"I3 completed executions are charged, failed ones are not", `
		SELECT id || ' is ' || status || ' and used ' || usage
		FROM component_executions WHERE (status = 'COMPLETED') <> (usage > 0)`},
	{"I4 the entries of a posting sum to zero", `
		SELECT id || ' sums to ' || (plan + paid + allowance + usage + granted + released + expired) FROM credit_postings
		WHERE plan + paid + allowance + usage + granted + released + expired <> 0`},
	{"I4 an account is the sum of its postings", `
		SELECT a.workspace_id || ' has ' || a.plan || ' and ' || a.paid || ', posted are ' || COALESCE(sum(p.plan), 0) || ' and ' || COALESCE(sum(p.paid), 0)
		FROM credit_accounts a LEFT JOIN credit_postings p ON p.workspace_id = a.workspace_id
		GROUP BY a.workspace_id HAVING a.plan <> COALESCE(sum(p.plan), 0) OR a.paid <> COALESCE(sum(p.paid), 0)`},
	{"I4 an account reserves what its live executions and runs need", `
		SELECT a.workspace_id || ' reserves ' || a.reserved || ', needed are ' || COALESCE(sum(n.reserved), 0)
		FROM credit_accounts a LEFT JOIN (SELECT workspace_id, reserved FROM component_executions WHERE finished_at IS NULL AND run_id IS NULL
			UNION ALL SELECT workspace_id, reserved FROM workflow_runs WHERE finished_at IS NULL) AS n USING (workspace_id)
		GROUP BY a.workspace_id HAVING a.reserved <> COALESCE(sum(n.reserved), 0)`},
	{"I5 the database refuses to change final rows", `
		SELECT 'the trigger of ' || name || ' is off' FROM unnest(ARRAY['component_executions_final', 'credit_postings_append_only']) AS name
		WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgname = name AND t.tgenabled = 'O')`},
	{"I6 every callback is settled", `
		SELECT execution_id || ' is ' || state || ' after ' || attempt_count || ' attempts' FROM callbacks WHERE state IN ('PENDING', 'QUEUED')`},
	{"I6 the log of attempts agrees with the callback", `
		SELECT c.execution_id || ' counts ' || c.attempt_count || ', logged ' || count(a.attempt)
		FROM callbacks c LEFT JOIN callback_attempts a ON a.workspace_id = c.workspace_id AND a.execution_id = c.execution_id
		GROUP BY c.workspace_id, c.execution_id HAVING count(a.attempt) <> c.attempt_count
			OR (c.delivered_at IS NULL) <> (count(*) FILTER (WHERE a.delivered) = 0)`},
	{"I7 nothing alive is without a worker or a job", `
		SELECT e.id || ' has neither worker nor job' FROM component_executions e
		LEFT JOIN river.river_job j ON j.id = e.job_id AND j.state NOT IN ('completed', 'discarded', 'cancelled')
		WHERE e.finished_at IS NULL AND e.worker_id IS NULL AND j.id IS NULL`},
	{"I7 parked executions have a pending job, and no others have", `
		SELECT e.id || CASE WHEN e.parked THEN ' is parked' ELSE ' is not parked' END || ' and its job is ' || COALESCE(j.state::text, 'gone')
		FROM component_executions e LEFT JOIN river.river_job j ON j.id = e.job_id
		WHERE e.finished_at IS NULL AND e.parked <> COALESCE(j.state = 'pending', false)`},
	{"I7 accounts count live and parked executions", `
		SELECT a.workspace_id || ' counts ' || a.live || ' alive and ' || a.parked || ' parked' FROM credit_accounts a
		LEFT JOIN component_executions e ON e.workspace_id = a.workspace_id AND e.finished_at IS NULL
		GROUP BY a.workspace_id HAVING count(e.id) <> a.live OR count(*) FILTER (WHERE e.parked) <> a.parked`},
	{"I8 no more attempts than were asked for", `
		SELECT id || ' made ' || attempt || ' of ' || attempts FROM component_executions
		WHERE attempt > attempts OR (error ->> 'attempt')::integer > attempts`},
	{"no input of a final execution is kept", `
		SELECT id || ' keeps ' || octet_length(call) || ' bytes' FROM component_executions WHERE finished_at IS NOT NULL AND call <> ''`},
	{"I10 nothing refers to another workspace", `
		SELECT 'callback ' || c.execution_id FROM callbacks c
			LEFT JOIN component_executions e ON e.workspace_id = c.workspace_id AND e.id = c.execution_id
			LEFT JOIN workflow_runs r ON r.workspace_id = c.workspace_id AND r.id = c.execution_id WHERE CASE WHEN c.of_run THEN r.id ELSE e.id END IS NULL
		UNION ALL SELECT 'attempt ' || a.execution_id FROM callback_attempts a
			LEFT JOIN callbacks c ON c.workspace_id = a.workspace_id AND c.execution_id = a.execution_id WHERE c.execution_id IS NULL
		UNION ALL SELECT 'posting ' || p.reference FROM credit_postings p
			LEFT JOIN component_executions e ON e.workspace_id = p.workspace_id AND e.id::text = p.reference WHERE p.kind = 'EXECUTION' AND e.id IS NULL
		UNION ALL SELECT 'execution ' || e.id FROM component_executions e
			LEFT JOIN workspaces w ON w.id = e.workspace_id WHERE w.id IS NULL
		UNION ALL SELECT 'key ' || k.resource_id FROM idempotency_keys k
			LEFT JOIN component_executions e ON e.workspace_id = k.workspace_id AND e.id = k.resource_id WHERE e.id IS NULL`},
}
