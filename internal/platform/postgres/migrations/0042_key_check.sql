-- expand
-- A value that is sealed under the master key of the installation: a process that cannot
-- open it has a wrong key. The first process writes it, a rotation of the key replaces it.
ALTER TABLE installation ADD COLUMN key_check bytea;
