package apicall

import (
	"regexp"
	"strings"
)

const configSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"description": "What to call, and how to read the answer.",
	"required": ["apiUrl", "method"],
	"properties": {
		"apiUrl": {"type": "string", "format": "uri", "pattern": "^https?://", "maxLength": 2048, "title": "URL", "description": "The address to call. https, port 443 or 1024 to 65535, public addresses only, unless the operator allows more.", "examples": ["https://api.example.com/v1/prices/ETH"]},
		"method": {"type": "string", "enum": ["GET", "POST", "PUT", "PATCH", "DELETE"], "title": "Method", "description": "The HTTP method.", "examples": ["GET"]},
		"timeoutMs": {"type": "integer", "minimum": 1, "maximum": 120000, "default": 30000, "title": "Timeout (ms)", "description": "How long the whole exchange may take, in milliseconds.", "examples": [10000]},
		"expectStatus": {"type": ["integer", "array"], "minimum": 100, "maximum": 599, "minItems": 1, "maxItems": 50, "items": {"type": "integer", "minimum": 100, "maximum": 599}, "title": "Expected status", "description": "The status, or the list of statuses, that is a success. Any other one is a failure.", "examples": [200, [200, 404]]},
		"outputMapping": {"type": "object", "maxProperties": 50, "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,63}$", "not": {"enum": ["status", "headers", "body", "bodyEncoding"]}}, "additionalProperties": {"type": "string", "format": "value-path", "maxLength": 512}, "title": "Output mapping", "description": "Further outputs: name to dotted path in the answer's body, such as data.items.0.price or data[\"odd.name\"]. A path that leads nowhere gives null. A path that begins with status, headers or body, where the body has no such member, starts at the output itself.", "examples": [{"price": "data.price"}]}
	},
	"examples": [{"apiUrl": "https://api.example.com/v1/prices/ETH", "method": "GET", "expectStatus": 200, "outputMapping": {"price": "data.price"}}]
}`

// reservedNames spells out both cases, because validators in JavaScript know no (?i).
var reservedNames = "^(" + regexp.MustCompile("[a-z]").ReplaceAllStringFunc(
	"host|content-length|transfer-encoding|accept-encoding|connection|keep-alive|upgrade|te|trailer|expect|proxy-.*",
	func(letter string) string { return "[" + strings.ToUpper(letter) + letter + "]" }) + ")$"

// The names refused in propertyNames are those that belong to the connection
// or that would change how the body's length and coding are read.
var inputSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"description": "What to send.",
	"required": ["headers"],
	"properties": {
		"headers": {"type": "object", "maxProperties": 50, "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_|~-]{1,128}$", "not": {"pattern": "` + reservedNames + `"}}, "additionalProperties": {"type": "string", "maxLength": 8192, "pattern": "^[\\t -~]*$", "x-secret": true}, "title": "Headers", "description": "Request headers; their values are kept secret. An empty object sends none but the usual ones, and of a POST or PATCH an Idempotency-Key.", "examples": [{"Accept": "application/json", "Authorization": "Bearer <token>"}]},
		"query": {"type": "object", "maxProperties": 100, "additionalProperties": {"type": ["string", "number", "boolean", "null", "array"], "items": {"type": ["string", "number", "boolean"]}}, "title": "Query", "description": "Query parameters, added to those of the URL. An array repeats its parameter; null leaves it out.", "examples": [{"currency": "usd", "limit": 10}]},
		"body": {"title": "Body", "description": "Request body. Without a Content-Type header a string is sent as text/plain and anything else as JSON; with application/x-www-form-urlencoded an object is sent as a form. Absent or null sends none.", "examples": [{"amount": "1"}]}
	},
	"examples": [{"headers": {}, "query": {"currency": "usd"}}]
}`

const outputSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"description": "The answer, and one more member for each name of outputMapping.",
	"required": ["status", "headers", "body", "bodyEncoding"],
	"properties": {
		"status": {"type": "integer", "minimum": 100, "maximum": 999, "title": "Status", "description": "The answer's HTTP status.", "examples": [200]},
		"headers": {"type": "object", "additionalProperties": {"type": "string"}, "title": "Headers", "description": "The answer's headers by lower-case name; several of one name are joined by comma and blank.", "examples": [{"content-type": "application/json"}]},
		"body": {"title": "Body", "description": "The answer's body: the JSON value where the content type says JSON, else text, else base64. null when empty, or when omitted.", "examples": [{"data": {"price": "3120.55"}}]},
		"bodyEncoding": {"type": "string", "enum": ["json", "text", "base64", "empty", "omitted"], "title": "Body encoding", "description": "How body is given. omitted: it is too large for an output, only the mapped values are given.", "examples": ["json"]}
	},
	"additionalProperties": true
}`
