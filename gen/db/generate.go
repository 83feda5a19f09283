// Package db is generated from queries/ and the migrations by sqlc. This file
// is its only hand-written one.
package db

//go:generate go tool -modfile=../../internal/tools/go.mod sqlc generate -f ../../sqlc.yaml
//go:generate go test -count=1 -run TestGeneratedCodeIsFresh github.com/weft-automation/weft/gen -args -update
