package postgres

// NothingToMigrate reports whether Migrate has nothing to do.
var NothingToMigrate = nothingToMigrate

// WithLockTimeout makes one change of a migration.
var WithLockTimeout = withLockTimeout
