// Package db is generated from queries/ and the migrations by sqlc. This file
// is its only hand-written one.
package db
