// Package api holds what is generated from openapi.yaml: the wire types, the
// routing of the operations and the document itself.
//
// Nothing here is written by hand but this file, the configurations beside it
// and overlay.yaml, which tells the generator the Go types of scalars so that
// the contract itself stays free of any language.
//
// The one invariant: the embedded document is openapi.yaml as it stands.
package api

//go:generate go tool -modfile=../../internal/tools/go.mod oapi-codegen -config types.yaml ../../openapi.yaml
//go:generate go tool -modfile=../../internal/tools/go.mod oapi-codegen -config server.yaml ../../openapi.yaml
//go:generate go tool -modfile=../../internal/tools/go.mod oapi-codegen -config spec.yaml ../../openapi.yaml
