package conformance

var retryParts = []Part{
	{"D8.18", "a failed call is tried again by its retry policy, with growing delays, until its time or its attempts end", ""},
	{"D8.18.apart", "retry and attempts exclude each other, LOGIC modules refuse retry, and an invalid policy is refused where it is wrong", ""},
	{"D8.18.default", "the retry policy of a workflow applies to its components that have neither retry nor attempts, except LOGIC modules", ""},
	{"D8.18.shown", "a record shows the number of attempts, and when the next one starts", ""},
	{"D8.18.on", "only failures that are retryable, or that on names, are repeated", ""},
	{"D8.18.unsafe", "an unsafe call without an answer is not repeated", ""},
	{"D8.18.waits", "a wait between attempts holds no worker", insideBy("internal/execution.TestARetryDoesNotStartBeforeItIsDue")},
	{"D8.18.sent", "a failure of a call says what was sent", ""},
}

var repeatParts = []Part{
	{"D8.19", "a REPEAT runs its body, one iteration after the other, until a CONTINUE is done or none is reached", ""},
	{"D8.19.state", "each iteration has the state that the one before it left, and the loop outputs the last one", ""},
	{"D8.19.bounds", "maxIterations and maxDurationMs end the loop at its port exhausted, or fail it", ""},
	{"D8.19.failure", "an iteration that fails, or reaches two CONTINUE, fails the loop", ""},
	{"D8.19.checked", "a REPEAT without a limit or CONTINUE, and a CONTINUE that is not directly in one, are refused", ""},
}
