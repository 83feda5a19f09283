package postgres

// NothingToMigrate reports whether Migrate has nothing to do.
var NothingToMigrate = nothingToMigrate

// WithLockTimeout makes one change of a migration.
var WithLockTimeout = withLockTimeout

// NewConnects returns the functions of a limit on attempts to connect.
func NewConnects(free int) (start func() error, succeeded func()) {
	c := &connects{free: free}
	return c.start, c.succeeded
}
