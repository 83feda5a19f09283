// Package style holds the colors, fonts and sizes that the docs, the settings and the console share.
package style

import _ "embed"

// Tokens is the style sheet that defines them. It comes first in the style sheets of pages.
//
//go:embed tokens.css
var Tokens string
