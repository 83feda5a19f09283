// Package judges tests a running service with external tools that read openapi.yaml. They
// send their requests through weft proxy, which signs them. Redocly respect runs the flows,
// each a typical use of the API. Specmatic generates valid and invalid requests of every
// operation. A recording proxy validates these requests and responses against openapi.yaml.
//
// It contains only tests. The invariant: every operation of the document is in a flow, and
// every exception for a tool is in exclusions.yaml, with the reason and the case that covers
// the rule instead.
package judges
