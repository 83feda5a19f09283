package conformance

// insideBy returns the reason why a part has no case: it cannot be observed from outside, and
// the test PACKAGE.TEST proves it instead.
func insideBy(test string) string { return "not observable from outside; proven by " + test }

// insideParts lists the decisions that only tests inside the service can prove.
var insideParts = []Part{
	{"D1.4.exact", "credits are exact decimals, never floating-point numbers", insideBy("internal/kit/credit.TestLE10AmountsAreExactAndWithoutFloatNoise")},
	{"D1.6.honoured", "the caller's trace continues in the service", insideBy("internal/platform/telemetry.TestACallersTracePassesThrough")},
	{"D1.7.kept", "an Idempotency-Key is kept for 24 hours", insideBy("internal/platform/idempotency.TestAKeyIsKeptForADay")},
	{"D1.7.commit", "an Idempotency-Key commits with what it creates", insideBy("internal/execution.TestEX14AnAcceptanceWhoseAnswerIsLostRunsOnce")},
	{"D2.4.leeway", "the tolerance for future timestamps is a setting, 0 s by default", insideBy("internal/account/auth.TestAU02Timestamps")},
	{"D2.5.work", "an unknown key, a revoked key and a wrong signature take the same work", insideBy("internal/account/auth.TestAU09UnknownRevokedAndWrongKeysLookTheSame")},
	{"D2.10.curl", "plain curl works through the signing proxy, which `weft dev` runs too, on loopback", insideBy("internal/program/cli.TestDevSignsRequestsOfThisMachineOnly")},
	{"D3.500", "500 INTERNAL_ERROR does not reveal the cause", insideBy("internal/web/server.TestAB12FailuresHaveOneShapeAndShowNothing")},
	{"D3.503", "503 UNAVAILABLE has Retry-After", insideBy("internal/web/server.TestAB12FailuresHaveOneShapeAndShowNothing")},
	{"D3.503.unknown", "a commit that is in doubt: 503 outcome_unknown, with Retry-After only if there was an Idempotency-Key", insideBy("internal/web/server.TestAnUnknownOutcomeIsRetryableOnlyWithAnIdempotencyKey")},
	{"D5.1.committed", "a callback is sent after the result is committed", insideBy("internal/program/chaos.TestEX04AndLE03EveryCrashPoint")},
	{"D5.2.bounds", "a receiver has 15 s, and 16 KiB of its response are read", insideBy("internal/execution/callback.TestCB06HostileResponsesAreLimitedInTimeAndMemory")},
	{"D5.3.schedule", "ten attempts, the first immediately, the last after a delay of 24 h, each delay within 20 %", insideBy("internal/execution/callback.TestCB02EveryDelayOfTheScheduleIsUsedOnce")},
	{"D5.3.retryAfter", "Retry-After is honored between once and twice the planned delay", insideBy("internal/execution/callback.TestCB03RetryAfterIsHonouredBetweenOnceAndTwiceThePlannedDelay")},
	{"D5.3.setting", "the schedule is a setting", insideBy("internal/program/app.TestSettingsAreReadFromTheEnvironment")},
	{"D5.5.dialled", "the IP address of a callback connection must be public", insideBy("internal/execution/callback.TestCB13RebindingBetweenAttemptsIsBlocked")},
	{"D5.5.allowed", "an allowlist permits hosts and networks", insideBy("internal/platform/egress.TestPolicyAllowsOnlyWhatItNames")},
	{"D7.1.final", "postings never change", insideBy("internal/account/billing.TestLE06PostingsCannotBeChangedUnderAnyRole")},
	{"D7.1.once", "an execution that finishes twice is billed once", insideBy("internal/account/billing.TestLE02OneExecutionFinishedFromFiftySidesIsPostedOnce")},
	{"D7.4.parallel", "parallel submits cannot overspend", insideBy("internal/execution.TestLE01SubmitsOnCreditForHalfOfThem")},
	{"D7.5.bounds", "a completed run costs at least the minimum, and no run more than the maximum", insideBy("internal/component/graph.TestCostsHoldForRandomRuns")},
	{"D8.7.memory", "memory does not grow with the number of stages, up to 50,000", insideBy("internal/workflow/run.TestLargeRunsKeepMemoryFlat")},
	{"D8.14.sealed", "secret fields are encrypted at rest and redacted", insideBy("internal/program/app.TestMT05SecretFieldsOfComponentsDoNotLeak")},
	{"D9.2.verified", "the operator or an e-mailed link verifies an e-mail address", insideBy("internal/account/person.TestOperatorVerifiesAnAddressWithANewPassword")},
	{"D9.2.devices", "known devices and addresses have separate limits", insideBy("internal/account/person.TestKnownDeviceSignsInWhereItsAddressIsLimited")},
	{"D9.3.operations", "the operations listener serves health", insideBy("internal/web/server.TestHealthServesOnlyHealthChecks")},
	{"D9.4.docs", "the docs are generated from the same document", insideBy("internal/web/portal.TestReferenceMatchesContract")},
	{"D9.5.ledger", "the ledger is never deleted", insideBy("internal/platform/retention.TestOP11DroppingAWeekIsQuickAndLeavesTheLedger")},
	{"D9.6.notice", "an operation is deprecated at least 12 months before it is removed", insideBy("gen.TestABreakingChangeOfTheContractIsRefused")},
}
