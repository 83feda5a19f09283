package postgres

// Settled reports whether Migrate has nothing to do.
var Settled = settled

// Patiently makes one change of a migration.
var Patiently = patiently
