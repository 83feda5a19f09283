package postgres

// Settled reports whether Migrate has nothing to do.
var Settled = settled
