package apicall

import "github.com/weft-automation/weft/internal/component/modules/upstream"

// The keywords of the schemas.
const configSchema = `"description": "The request, and how to handle the response.", "required": ["apiUrl", "method"], "properties": {
	"apiUrl": {"type": "string", "format": "uri", "pattern": "^https?://", "maxLength": 2048, "title": "URL", "description": "The URL to call. Only https, port 443 or 1024 to 65535, and public addresses, unless the operator allows more.", "examples": ["https://api.example.com/v1/prices/ETH"]},
	"method": {"type": "string", "enum": ["GET", "POST", "PUT", "PATCH", "DELETE"], "title": "Method", "description": "The HTTP method.", "examples": ["GET"]},
	"timeoutMs": {"type": "integer", "minimum": 1, "maximum": 120000, "default": 30000, "title": "Timeout (ms)", "description": "The timeout for the whole exchange, in milliseconds.", "examples": [10000]},
	"expectStatus": {"type": ["integer", "array"], "minimum": 100, "maximum": 599, "minItems": 1, "maxItems": 50, "items": {"type": "integer", "minimum": 100, "maximum": 599}, "title": "Expected status", "description": "The status or statuses that count as success. Any other status is a failure.", "examples": [200, [200, 404]]},
	"followRedirects": {"type": "boolean", "default": true, "title": "Follow redirects", "description": "Whether to follow redirects. If false, the response with the redirect is the output, with its target in headers.location. expectStatus must allow its status.", "examples": [false]},
	"outputMapping": {"type": "object", "maxProperties": 50, "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,63}$", "not": {"enum": ["status", "headers", "body", "bodyEncoding"]}}, "additionalProperties": {"type": "string", "format": "value-path", "maxLength": 512}, "title": "Output mapping", "description": "Additional outputs: each name maps to a dotted path in the response body, such as data.items.0.price or data[\"odd.name\"]. The body is decoded as JSON whatever its content type. The call fails if the body is not JSON, or if a selected value cannot be stored; the rest of the body may have any form. The details of that error have the other values as selected, up to 8 KiB. If there is no value at the path, or the status is 204, 205 or 304, the output is null. Of fields with the same name, the last one is selected. A path that starts with status, headers or body selects from the response, unless the body has a field with that name. Header names match in any case.", "examples": [{"price": "data.price"}]}
}, "examples": [{"apiUrl": "https://api.example.com/v1/prices/ETH", "method": "GET", "expectStatus": 200, "outputMapping": {"price": "data.price"}}]`

// propertyNames rejects headers that control the connection or the framing and encoding of the
// body.
var inputSchema = `"description": "The headers, query and body to send.", "properties": {
	"headers": {"type": "object", "default": {}, "maxProperties": 50, "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_|~-]{1,128}$", "not": {"pattern": "` + upstream.ReservedNames + `"}}, "additionalProperties": {"type": "string", "maxLength": 8192, "pattern": "^[\\t -~]*$", "x-secret": true}, "title": "Headers", "description": "The request headers. Their values are stored encrypted. Default headers are added, such as User-Agent, and Idempotency-Key for POST and PATCH.", "examples": [{"Accept": "application/json", "Authorization": "Bearer <token>"}]},
	"query": {"type": "object", "maxProperties": 100, "additionalProperties": {"type": ["string", "number", "boolean", "null", "array"], "items": {"type": ["string", "number", "boolean"]}}, "title": "Query", "description": "Query parameters to add to the URL. An array repeats its parameter; null leaves it out.", "examples": [{"currency": "usd", "limit": 10}]},
	"body": {"title": "Body", "description": "The request body. Without a Content-Type header, a string is sent as text/plain and any other value as JSON. With application/x-www-form-urlencoded, an object is sent as a form. Leave it out or use null to send no body.", "examples": [{"amount": "1"}]}
}, "examples": [{"query": {"currency": "usd"}}]`

const outputSchema = `"description": "The response, and a field for each name in outputMapping.", "required": ["status", "headers", "setCookies", "body", "bodyEncoding"], "properties": {
	"status": {"type": "integer", "minimum": 100, "maximum": 999, "title": "Status", "description": "The HTTP status of the response.", "examples": [200]},
	"headers": {"type": "object", "additionalProperties": {"type": "string"}, "title": "Headers", "description": "The response headers, by lower-case name. Repeated headers are joined with a comma and a space.", "examples": [{"content-type": "application/json"}]},
	"setCookies": {"type": "array", "items": {"type": "string"}, "title": "Cookies", "description": "The Set-Cookie headers, one string for each, unless outputMapping has this name. Empty if the response has none.", "examples": [["sid=31d4; Path=/; HttpOnly"]]},
	"body": {"title": "Body", "description": "The response body: a JSON value if the content type is JSON, otherwise text, or base64 for binary data. null if it is empty or omitted.", "examples": [{"data": {"price": "3120.55"}}]},
	"bodyEncoding": {"type": "string", "enum": ["json", "text", "base64", "empty", "omitted"], "title": "Body encoding", "description": "The form of body. text is also the form of JSON that cannot be stored, for example because a field is duplicated. omitted means that the body is too large for an output, which then has only the mapped values.", "examples": ["json"]}
}, "additionalProperties": true`
