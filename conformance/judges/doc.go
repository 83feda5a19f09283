// Package judges tests a running service with external tools that read openapi.yaml. The tools send
// their requests through `weft proxy`, which signs them. Redocly respect runs the flows, each a
// typical use of the API. Specmatic generates valid and invalid requests of every operation. A
// recording proxy validates these requests and responses against openapi.yaml.
//
// The package contains only tests. Invariant: Every operation of the document is in a flow. Every
// exception for a tool is in exclusions.yaml, with its reason and the case that covers the rule
// instead.
package judges
