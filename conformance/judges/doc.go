// Package judges has tools of others judge the service as it runs, by openapi.yaml and
// through weft proxy, which signs for them: Redocly respect goes through the flows, each a
// story that a user would recognize.
//
// It is tests only. Its invariant: every operation of the document is in a flow, and what a
// tool is spared has its reason.
package judges
