-- expand
-- Requests have no use for what outputs are sealed under: the vault reads and makes these keys
-- over connections of the system, in every process and of every version.
REVOKE SELECT ON output_keys FROM weft_api;
