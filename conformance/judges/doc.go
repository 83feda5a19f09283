// Package judges has tools of others judge the service as it runs, by openapi.yaml and
// through weft proxy, which signs for them: Redocly respect goes through the flows, each a
// story that a user would recognize, and Specmatic makes right and wrong requests of every
// operation, past a witness that holds what it sends against openapi.yaml as it is.
//
// It is tests only. Its invariant: every operation of the document is in a flow, and what a
// tool is spared is in exclusions.yaml, with the reason and the case that proves it instead.
package judges
