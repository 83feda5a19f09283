package conformance

// peopleParts are the requirements on people and their sessions.
var peopleParts = []Part{
	{"D2.11.selects", "any signing header selects the signature; otherwise naming a workspace selects the session", ""},
	{"D2.11.role", "a person needs the role that the operation names, and a workspace of others is 404", ""},
	{"D2.11.counts", "a person's requests count against the limits of the workspace", ""},
	{"D2.11.streams", "an event stream accepts the workspace in the query, and closes within 5 s after its session or membership ends", ""},
	{"D2.12", "the stream of a workspace starts with resync and reports the ID and status of each run and execution that changes", ""},
	{"D2.11.audited", "the audit log names the person", ""},
	{"D2.11.origin", "a person's requests are protected against cross-origin requests", ""},

	{"D9.2.sessions", "people sign in and can access their workspaces", ""},
	{"D9.2.cookie", "cookie sessions are HttpOnly, SameSite=Lax and protected against cross-origin requests", ""},
	{"D9.2.keys", "a workspace key can never create keys", ""},
	{"D9.2.members", "members have the role owner, admin, editor or viewer", ""},
	{"D9.2.rotate", "API keys are listed, created, revoked and rotated with overlap", ""},
	{"D9.2.audit", "an audit log records who changed permissions, credits and secrets", ""},
	{"D9.2.environment", "members can manage environment variables", ""},
	{"D9.2.rest", "members can read credits and the ledger", ""},
}
