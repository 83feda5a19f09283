-- Older binaries would send references in strings of workflows as text, so they must not run next to this
-- version. The tables stay as they are.
SELECT;
