-- expand
-- Returns how many executions one workspace may have executing or ready: nine tenths of the slots
-- of all workers, so that other workspaces find a free slot however much this one submits. 100
-- slots are assumed until the first worker has registered. The condition on id holds for every
-- row, so that the plan uses the primary key.
CREATE FUNCTION fair_share() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT GREATEST(1, s.slots - GREATEST(1, s.slots / 10))
    FROM (SELECT COALESCE(NULLIF(sum(w.slots), 0), 100)::bigint AS slots FROM workers w WHERE w.id > 0) AS s
$$;
