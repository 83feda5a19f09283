-- expand
-- A request that begins a run makes its first stages with it. What changes a run from then
-- on, and what is charged for it, is still the engine's.
GRANT INSERT ON run_stages, run_events TO weft_api;
