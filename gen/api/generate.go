// Package api holds the code generated from openapi.yaml: the wire types, the routing
// of the operations and the document itself.
//
// Only this file, the generator configurations and overlay.yaml are written by hand.
// overlay.yaml sets the Go types of scalars for the generator, so that the contract
// contains nothing specific to Go.
//
// The invariant: the embedded documents are openapi.yaml unchanged, its JSON form, and
// its OpenAPI 3.0 edition.
package api

import _ "embed" // for the document

//go:embed openapi.yaml
var specYAML []byte

// SpecYAML returns the document as written, including comments. Callers must not modify it.
func SpecYAML() []byte { return specYAML }

//go:embed openapi.json
var specJSON []byte

// SpecJSON returns the document as JSON. It is embedded because parsing the YAML would take
// longer than the rest of a process's start. Callers must not modify it.
func SpecJSON() []byte { return specJSON }

//go:embed openapi-3.0.json
var spec30JSON []byte

// Spec30JSON returns the OpenAPI 3.0 edition of the document. Callers must not modify it.
func Spec30JSON() []byte { return spec30JSON }
