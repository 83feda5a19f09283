package conformance

// componentParts are what the component library promises.
var componentParts = []Part{
	{"C.API_CALL", "methods, headers, query, body; gives status, headers, body; POST and PATCH carry an Idempotency-Key", ""},
	{"C.API_CALL.mapping", "an output for each name of outputMapping", ""},
	{"C.API_CALL.statuses", "a status from 400 on fails, unless expectStatus allows it; 408, 425, 429 and 5xx may be tried again", ""},
	{"C.API_CALL.bounds", "timeoutMs; 5 MiB of an answer; 3 redirects", ""},

	{"C.LOGIC", "the modules of control flow cost nothing, and but for TRANSFORM are executed in workflows only", ""},
	{"C.ON_API_CALLED", "inputSchema judges the input; gives its members, the input whole, triggeredAt", ""},
	{"C.ON_SCHEDULE", "begins by cron and timeZone; gives scheduledAt", ""},
	{"C.ON_WEBHOOK", "begins by a verified request; gives headers and body", ""},
	{"C.FOR_EACH", "concurrency, onItemFailure; item and index in the body; ports each and done", ""},
	{"C.IF", "an expression; ports then and else; gives result", ""},
	{"C.SWITCH", "cases; a port for each, and default", ""},
	{"C.TRANSFORM", "an expression, in both modes; gives result", ""},
	{"C.ARRAY_BUILDER", "items by index, of an itemType; gives array", ""},
	{"C.constants", "STRING_, NUMBER_, BOOLEAN_ and JSON_CONSTANT give their value", ""},
	{"C.DELAY", "durationMs; gives resumedAt; holds no worker", ""},
	{"C.WAIT_UNTIL", "timestamp; gives resumedAt; holds no worker", ""},
	{"C.WAIT_FOR_SIGNAL", "name and timeoutMs; gives payload; port timeout", ""},
	{"C.RUN_WORKFLOW", "workflowId and version; takes the child's input, gives its output; cancel passes down", ""},
	{"C.RESPOND", "gives the run its output; ends an inline wait early", ""},
	{"C.FAIL", "fails the run with its code and message", ""},
}
