// Package api holds what is generated from openapi.yaml: the wire types, the
// routing of the operations and the document itself.
//
// Nothing here is written by hand but this file, the configurations beside it
// and overlay.yaml, which tells the generator the Go types of scalars so that
// the contract itself stays free of any language.
//
// The one invariant: the embedded document is openapi.yaml as it stands, the same as
// JSON, and that in the words of OpenAPI 3.0.
package api

import _ "embed" // for the document

//go:embed openapi.yaml
var specYAML []byte

// SpecYAML is the document as it is written, comments included. It is not to be changed.
func SpecYAML() []byte { return specYAML }

//go:embed openapi.json
var specJSON []byte

// SpecJSON is the document as JSON: to read YAML takes a process that starts longer than
// all else does. It is not to be changed.
func SpecJSON() []byte { return specJSON }

//go:embed openapi-3.0.json
var spec30JSON []byte

// Spec30JSON is the document in the words of OpenAPI 3.0. It is not to be changed.
func Spec30JSON() []byte { return spec30JSON }
