-- The items of a REPEAT are the state of its first iteration. Earlier binaries do not know this module and
-- would fail the runs that have one, so they must not run next to this version.
COMMENT ON COLUMN run_stages.items IS 'the items of a FOR_EACH, or a list of the first state of a REPEAT';
