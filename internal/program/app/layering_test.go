package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weft-automation/weft/"

// place is the level of a package and the packages that it may import.
type place struct {
	level   int      // imports go to lower levels only, never to its own level
	inside  []string // packages of this module that it may import; a trailing slash includes everything below
	outside []string // prefixes of other modules' packages; the standard library is always allowed
	why     string
	tests   bool // only test files may import it
	pure    bool // it imports no context and doesn't read the clock
}

// Prefixes used in many lines.
const (
	ids    = "github.com/google/uuid"
	pgx    = "github.com/jackc/pgx/v5"
	river  = "github.com/riverqueue/river"
	schema = "github.com/santhosh-tekuri/jsonschema/v6"
	spec   = "github.com/getkin/kin-openapi"
	traces = "go.opentelemetry.io/otel"
)

// group is a folder of internal/, or the generated code.
type group struct {
	rank   int      // imports go to groups of lower rank only
	denied []string // prefixes of packages that it must not import
	why    string
}

// groups is the first half of the import rules: which groups may import which. Test files are exempt.
var groups = map[string]group{
	"internal/kit":       {rank: 0, denied: []string{pgx, "net/http"}, why: "values and formats that every group shares; no I/O"},
	"gen":                {rank: 1, denied: []string{river}, why: "generated from openapi.yaml and queries/"},
	"internal/platform":  {rank: 2, why: "PostgreSQL, the network and the process; nothing of workspaces"},
	"internal/secret":    {rank: 3, denied: []string{river, "net/http"}, why: "signatures, encryption at rest, redaction"},
	"internal/account":   {rank: 4, denied: []string{river}, why: "workspaces with their members, keys, credits and limits"},
	"internal/component": {rank: 5, denied: []string{pgx, river, "gen", "internal/platform/postgres", "internal/account"}, why: "what a component is, the component library, and workflow graphs"},
	"internal/execution": {rank: 6, why: "one call of one component, from submission to callback"},
	"internal/workflow":  {rank: 7, why: "definitions, and the runs that requests, schedules and hooks start"},
	"internal/web":       {rank: 8, denied: []string{pgx, river, "gen/db"}, why: "the API, the docs and the settings pages over HTTP"},
	"internal/local":     {rank: 9, denied: []string{river, "gen/db"}, why: "what runs on a developer's machine; only program imports it"},
	"internal/program":   {rank: 10, why: "the commands and processes built from the other groups"},
}

// maxEntries is how many entries internal/ shows: the groups, the Node tools and ARCHITECTURE.md.
const maxEntries = 12

// places lists what each package may import, including packages of the same group. A new package
// needs a line here. A commit that extends a line states the reason.
var places = map[string]place{
	"internal/kit/status":     {level: 0, why: "state names, shared by rows and wire"},
	"internal/kit/credit":     {level: 0, why: "amounts, shared by rows and wire"},
	"internal/kit/uuid7":      {level: 0, outside: []string{ids}, why: "IDs, whose time no clock of this machine can set wrong"},
	"internal/kit/timestamp":  {level: 0, why: "the wire form of times"},
	"internal/kit/fault":      {level: 0, why: "the one error with a meaning across packages"},
	"internal/kit/failpoint":  {level: 0, why: "named crash points at which a test kills the process"},
	"internal/kit/waittest":   {level: 0, why: "waits in tests, limited only by the timeout of go test", tests: true},
	"internal/kit/wait":       {level: 0, why: "waits between attempts, and for work to finish"},
	"internal/kit/cursor":     {level: 1, inside: []string{"internal/kit/fault"}, outside: []string{ids}, why: "positions in paginated lists"},
	"internal/kit/strictjson": {level: 1, inside: []string{"internal/kit/fault"}, why: "strict decoding of JSON"},
	"internal/kit/content":    {level: 1, outside: []string{"golang.org/x/net/html/charset", "golang.org/x/text/"}, why: "what a Content-Type says about a body"},
	"internal/kit/cron":       {level: 1, why: "cron expressions and their times; no clock"},
	"internal/kit/calendar":   {level: 1, inside: []string{"internal/kit/timestamp"}, why: "times in time zones, and durations as text; no clock"},
	"internal/kit/encoding":   {level: 0, why: "bytes as text: hexadecimal digits, base64 and base58"},
	"internal/kit/digest":     {level: 0, outside: []string{"golang.org/x/crypto"}, why: "hashes and message codes by name"},
	"internal/kit/jsonschema": {level: 2, inside: []string{"internal/kit/fault", "internal/kit/strictjson"}, outside: []string{schema}, why: "parsing, compiling and explaining JSON schemas"},
	"internal/kit/spelling":   {level: 1, why: "the nearest name, to suggest it"},
	"internal/kit/retry":      {level: 1, inside: []string{"internal/kit/fault"}, why: "when a failed call is tried again; pure"},
	"internal/kit/reference":  {level: 1, why: "references in strings, and the paths in them"},
	"internal/kit/envref":     {level: 2, inside: []string{"internal/kit/fault", "internal/kit/reference", "internal/kit/strictjson"}, why: "references to variables in strings"},

	"gen":     {level: 1, why: "only a test: what is generated is fresh"},
	"gen/api": {level: 1, inside: []string{"internal/kit/status", "internal/kit/credit", "internal/kit/timestamp", "internal/kit/fault"}, outside: []string{ids, "github.com/oapi-codegen/runtime", spec}, why: "wire types and routing"},
	"gen/db":  {level: 1, inside: []string{"internal/kit/status", "internal/kit/credit", "internal/kit/fault"}, outside: []string{ids, pgx}, why: "queries and rows"},

	"internal/platform/clock":               {level: 0, why: "PostgreSQL's time, estimated without a query"},
	"internal/platform/postgres/migrations": {level: 0, why: "the schema's changes, as files"},
	"internal/platform/sse":                 {level: 1, why: "framing of event streams"},
	"internal/platform/egress":              {level: 1, inside: []string{"internal/kit/fault"}, outside: []string{"code.dny.dev/ssrf"}, why: "the one way out to the network"},
	"internal/platform/egress/egresstest":   {level: 1, outside: []string{"golang.org/x/net/dns/dnsmessage"}, why: "hostile names and servers", tests: true},
	"internal/platform/throttle":            {level: 1, why: "limits on failed attempts by source"},
	"internal/platform/budget":              {level: 1, why: "limits on resources in use, in total and by source"},
	"internal/platform/mail":                {level: 1, outside: []string{"github.com/wneessen/go-mail"}, why: "e-mail through the operator's SMTP server"},
	"internal/platform/mail/mailtest":       {level: 1, outside: []string{"github.com/emersion/go-smtp"}, why: "an SMTP server for tests", tests: true},
	"internal/platform/groupcommit":         {level: 1, outside: []string{ids}, why: "many writes in one transaction"},
	"internal/platform/postgres":            {level: 1, inside: []string{"internal/platform/postgres/migrations", "internal/kit/fault", "internal/kit/wait"}, outside: []string{ids, pgx, river, "github.com/vgarvardt/pgx-google-uuid/v5"}, why: "pools, migrations and commits in doubt, no word of the domain; of kit/fault it knows NOT_FOUND and outcome_unknown"},
	"internal/platform/telemetry":           {level: 1, inside: []string{"internal/kit/status"}, outside: []string{ids, pgx, traces, "github.com/prometheus/client_golang"}, why: "logs, metrics and traces"},
	"internal/platform/permit":              {level: 2, inside: []string{"internal/kit/fault", "internal/platform/postgres"}, outside: []string{ids, pgx, "golang.org/x/sync"}, why: "how many transactions of a workspace wait for its rows at once"},
	"internal/platform/notify":              {level: 3, inside: []string{"internal/platform/postgres", "internal/platform/telemetry", "internal/kit/wait"}, outside: []string{ids, pgx}, why: "notifications, which may be lost"},
	"internal/platform/idempotency":         {level: 3, inside: []string{"gen/db", "internal/kit/fault", "internal/platform/postgres"}, outside: []string{ids, pgx}, why: "Idempotency-Keys"},
	"internal/platform/retention":           {level: 3, inside: []string{"gen/db", "internal/platform/postgres", "internal/platform/telemetry"}, outside: []string{pgx}, why: "partitions: created and dropped"},
	"internal/platform/quarantine":          {level: 3, inside: []string{"gen/db", "internal/platform/clock", "internal/kit/fault", "internal/kit/wait", "internal/platform/postgres", "internal/kit/uuid7"}, outside: []string{pgx}, why: "whether work on a restored database is allowed"},

	"internal/secret/signature": {level: 1, inside: []string{"internal/kit/fault"}, why: "the signed message"},
	"internal/secret/seal":      {level: 1, outside: []string{ids}, why: "envelope encryption"},
	"internal/secret/redact":    {level: 1, why: "finding and redacting secrets in text"},
	"internal/secret/signcheck": {level: 2, inside: []string{"internal/kit/strictjson"}, why: "diagnosis of wrong signatures; no keys"},
	"internal/secret/vault":     {level: 3, inside: []string{"gen/db", "internal/kit/fault", "internal/platform/postgres", "internal/secret/seal", "internal/kit/uuid7"}, outside: []string{ids}, why: "encryption of secret outputs; it does not decide which are secret"},

	"internal/account/revocation": {level: 1, why: "the end of streams whose caller lost access"},
	"internal/account/plan":       {level: 1, inside: []string{"internal/kit/credit"}, why: "plans and what they include"},
	"internal/account/storage":    {level: 1, inside: []string{"internal/kit/credit"}, why: "storage limits of runs and their price"},
	"internal/account/audit": {
		level: 2, inside: []string{"gen/", "internal/platform/throttle", "internal/kit/cursor", "internal/kit/fault", "internal/platform/postgres", "internal/platform/telemetry", "internal/kit/timestamp"}, outside: []string{ids},
		why: "the audit log; every higher level may write to it",
	},
	"internal/account/billing": {level: 3, inside: []string{"gen/", "internal/account/audit", "internal/kit/failpoint", "internal/kit/credit", "internal/kit/cursor", "internal/kit/fault", "internal/account/plan", "internal/platform/permit", "internal/platform/postgres", "internal/account/storage", "internal/kit/timestamp"}, outside: []string{ids, pgx}, why: "accounts and the ledger"},
	"internal/account/auth": {
		level: 3, inside: []string{"gen/", "internal/platform/throttle", "internal/account/audit", "internal/account/revocation", "internal/kit/cursor", "internal/kit/fault", "internal/secret/signcheck", "internal/platform/postgres", "internal/secret/signature", "internal/kit/strictjson", "internal/platform/telemetry", "internal/kit/timestamp", "internal/kit/uuid7"},
		outside: []string{ids, pgx, "golang.org/x/sync"}, why: "keys and principals; no route names",
	},
	"internal/account/person": {
		level: 3, inside: []string{"gen/", "internal/platform/throttle", "internal/account/audit", "internal/account/revocation", "internal/kit/cursor", "internal/kit/fault", "internal/platform/mail", "internal/platform/postgres", "internal/secret/seal", "internal/kit/timestamp", "internal/kit/uuid7"},
		outside: []string{ids, pgx, "golang.org/x/crypto"}, why: "users, their sessions and roles; no route names",
	},
	"internal/account/workspace": {
		level: 3, inside: []string{"gen/", "internal/account/audit", "internal/kit/credit", "internal/kit/cursor", "internal/kit/fault", "internal/account/plan", "internal/platform/postgres", "internal/kit/timestamp", "internal/kit/uuid7"}, outside: []string{ids, pgx},
		why: "workspaces and their terms",
	},
	"internal/account/environment": {
		level: 3, inside: []string{"gen/", "internal/account/audit", "internal/kit/cursor", "internal/kit/fault", "internal/platform/permit", "internal/platform/postgres", "internal/secret/seal", "internal/kit/strictjson", "internal/kit/timestamp", "internal/kit/envref", "internal/kit/uuid7"},
		outside: []string{ids, pgx}, why: "the variables of a workspace; it resolves nothing",
	},
	"internal/account/accesstoken": {level: 4, inside: []string{"gen/db", "internal/account/environment", "internal/kit/strictjson", "internal/kit/uuid7", "internal/kit/wait", "internal/platform/egress", "internal/platform/postgres", "internal/secret/seal"}, outside: []string{ids, "golang.org/x/sync"}, why: "access tokens of variables: fetched once for all who wait"},
	"internal/account/ratelimit": {
		level:  6,
		inside: []string{"gen/db", "internal/kit/fault", "internal/kit/wait", "internal/platform/groupcommit", "internal/account/plan", "internal/platform/postgres", "internal/platform/telemetry", "internal/account/workspace"}, outside: []string{ids, pgx},
		why: "rate limits and concurrency limits of workspaces",
	},

	"internal/component/template":   {level: 4, inside: []string{"internal/component/expression", "internal/kit/fault", "internal/kit/reference", "internal/kit/strictjson"}, why: "strings with references, and the values that replace these"},
	"internal/component/graph":      {level: 5, inside: []string{"internal/component/expression", "internal/component/template", "internal/kit/envref", "internal/kit/reference", "internal/kit/retry", "internal/kit/spelling", "internal/kit/status", "internal/kit/fault", "internal/kit/jsonschema", "internal/kit/strictjson"}, why: "compiled workflow definitions; no database, no clock, no log"},
	"internal/component/expression": {level: 3, inside: []string{"internal/kit/calendar", "internal/kit/digest", "internal/kit/encoding", "internal/kit/envref", "internal/kit/fault", "internal/kit/reference", "internal/kit/strictjson", "internal/kit/timestamp"}, outside: []string{"github.com/expr-lang/expr"}, why: "evaluation of conditions and transforms"},
	"internal/component": {
		level: 6, inside: []string{"internal/kit/credit", "internal/secret/redact", "internal/kit/fault", "internal/kit/jsonschema", "internal/component/graph", "internal/kit/strictjson", "internal/kit/envref", "internal/kit/reference", "internal/kit/spelling", "internal/platform/budget"},
		outside: []string{ids}, why: "what a module is; no database, no queue, no HTTP server",
	},
	"internal/component/componenttest":       {level: 7, inside: []string{"internal/component", "internal/kit/fault", "internal/platform/egress", "internal/kit/jsonschema", "internal/kit/strictjson", "internal/kit/uuid7"}, outside: []string{ids}, why: "tests that every module must pass", tests: true},
	"internal/component/modules/upstream":    {level: 7, inside: []string{"internal/component", "internal/platform/egress", "internal/kit/credit"}, why: "HTTP calls of modules"},
	"internal/component/modules/utility":     {level: 7, inside: []string{"internal/component", "internal/kit/calendar", "internal/kit/credit", "internal/kit/digest", "internal/kit/encoding", "internal/kit/fault", "internal/kit/strictjson", "internal/kit/timestamp"}, outside: []string{ids, "filippo.io/age", "golang.org/x/crypto"}, why: "modules without I/O"},
	"internal/component/modules/apicall":     {level: 8, inside: []string{"internal/component", "internal/component/graph", "internal/component/modules/upstream", "internal/component/template", "internal/kit/content", "internal/kit/credit", "internal/kit/fault", "internal/kit/strictjson", "internal/platform/egress"}, outside: []string{ids, "github.com/tidwall/gjson"}, why: "API_CALL"},
	"internal/component/modules/logic":       {level: 7, inside: []string{"internal/component", "internal/kit/cron", "internal/component/expression", "internal/kit/fault", "internal/component/graph", "internal/secret/signature", "internal/kit/strictjson", "internal/kit/timestamp", "internal/kit/envref", "internal/kit/reference"}, why: "control flow modules, which the engine executes by name"},
	"internal/component/modules/evm":         {level: 8, inside: []string{"internal/component", "internal/component/modules/upstream", "internal/kit/content", "internal/kit/credit", "internal/kit/fault", "internal/kit/strictjson", "internal/platform/egress"}, outside: []string{ids, "github.com/adraffy/go-ens-normalize", "github.com/ethereum/go-ethereum"}, why: "modules of EVM chains"},
	"internal/component/modules/evm/evmtest": {level: 7, inside: []string{"internal/kit/waittest"}, outside: []string{"github.com/ethereum/go-ethereum"}, why: "a real node for tests", tests: true},
	"internal/component/modules":             {level: 9, inside: []string{"internal/component", "internal/component/modules/", "internal/platform/egress"}, why: "the one list of modules"},

	"internal/execution/present": {level: 3, inside: []string{"gen/", "internal/kit/fault", "internal/secret/seal", "internal/kit/timestamp", "internal/kit/status", "internal/kit/strictjson"}, outside: []string{ids}, why: "conversion of rows to API records, also of outputs that no key decrypts"},
	"internal/execution/callback": {
		level:   6,
		inside:  []string{"gen/", "internal/platform/clock", "internal/account/audit", "internal/kit/failpoint", "internal/kit/cursor", "internal/platform/egress", "internal/kit/fault", "internal/platform/groupcommit", "internal/platform/notify", "internal/platform/postgres", "internal/execution/present", "internal/secret/seal", "internal/secret/signature", "internal/kit/status", "internal/kit/strictjson", "internal/platform/telemetry", "internal/kit/timestamp", "internal/secret/vault", "internal/kit/wait"},
		outside: []string{ids, pgx, river, traces}, why: "delivery of callbacks; independent of how executions run",
	},
	"internal/execution": {
		level: 7, inside: []string{"gen/", "internal/platform/clock", "internal/account/accesstoken", "internal/account/audit", "internal/account/billing", "internal/execution/callback", "internal/component", "internal/kit/failpoint", "internal/kit/credit", "internal/kit/cursor", "internal/platform/egress", "internal/kit/fault", "internal/platform/groupcommit", "internal/platform/idempotency", "internal/platform/notify", "internal/platform/permit", "internal/platform/postgres", "internal/execution/present", "internal/secret/seal", "internal/kit/status", "internal/kit/strictjson", "internal/platform/telemetry", "internal/kit/timestamp", "internal/secret/vault", "internal/kit/wait", "internal/kit/retry", "internal/kit/uuid7"},
		outside: []string{ids, pgx, river, traces, "golang.org/x/sync"}, why: "the life of one execution",
	},

	"internal/workflow": {
		level:   7,
		inside:  []string{"gen/", "internal/account/audit", "internal/account/billing", "internal/component", "internal/kit/cursor", "internal/account/environment", "internal/kit/fault", "internal/component/graph", "internal/platform/idempotency", "internal/platform/permit", "internal/platform/postgres", "internal/execution/present", "internal/secret/seal", "internal/account/storage", "internal/kit/strictjson", "internal/kit/timestamp", "internal/kit/envref", "internal/kit/reference", "internal/component/template", "internal/kit/uuid7"},
		outside: []string{ids, pgx, "golang.org/x/text/unicode/norm"}, why: "workflow definitions: validation and storage; it runs nothing",
	},
	"internal/workflow/workflowtest": {
		level: 8, inside: []string{"gen/api", "internal/component", "internal/component/graph", "internal/kit/credit", "internal/kit/status", "internal/kit/strictjson", "internal/workflow"}, outside: []string{ids},
		why: "random workflows, and how their runs end", tests: true,
	},
	"internal/workflow/engine": {
		level:   8,
		inside:  []string{"gen/api", "internal/account/storage", "internal/component", "internal/component/expression", "internal/component/graph", "internal/component/modules/logic", "internal/component/template", "internal/execution/present", "internal/kit/credit", "internal/kit/envref", "internal/kit/fault", "internal/kit/jsonschema", "internal/kit/reference", "internal/kit/status", "internal/kit/strictjson", "internal/kit/timestamp", "internal/kit/uuid7"},
		outside: []string{ids}, pure: true, why: "decisions of how a run advances; no database, no clock, no context",
	},
	"internal/workflow/orchestrator": {
		level:   9,
		inside:  []string{"gen/", "internal/account/billing", "internal/account/environment", "internal/account/storage", "internal/component", "internal/component/graph", "internal/execution", "internal/execution/callback", "internal/execution/present", "internal/kit/credit", "internal/kit/envref", "internal/kit/failpoint", "internal/kit/fault", "internal/kit/status", "internal/kit/strictjson", "internal/kit/timestamp", "internal/kit/wait", "internal/platform/clock", "internal/platform/notify", "internal/platform/permit", "internal/platform/postgres", "internal/secret/vault", "internal/workflow", "internal/workflow/engine", "internal/kit/uuid7"},
		outside: []string{ids, pgx, river}, why: "advancing runs; independent of the callers",
	},
	"internal/workflow/run": {
		level:   10,
		inside:  []string{"gen/", "internal/account/billing", "internal/component", "internal/kit/failpoint", "internal/kit/credit", "internal/kit/cursor", "internal/workflow/engine", "internal/workflow/orchestrator", "internal/account/environment", "internal/execution", "internal/execution/callback", "internal/kit/fault", "internal/component/graph", "internal/platform/notify", "internal/platform/permit", "internal/platform/postgres", "internal/kit/status", "internal/account/storage", "internal/execution/present", "internal/kit/strictjson", "internal/kit/timestamp", "internal/secret/vault", "internal/workflow", "internal/kit/wait", "internal/kit/uuid7"},
		outside: []string{ids, pgx, river}, why: "runs, for API callers",
	},
	"internal/workflow/uncertain": {level: 10, inside: []string{"gen/db", "internal/component", "internal/component/graph", "internal/kit/fault", "internal/platform/notify", "internal/platform/postgres", "internal/platform/quarantine", "internal/workflow", "internal/workflow/engine"}, outside: []string{ids}, why: "which runs of a restored database would repeat an unsafe call"},
	"internal/workflow/changes":   {level: 10, inside: []string{"gen/", "internal/kit/cursor", "internal/kit/timestamp", "internal/kit/wait", "internal/platform/notify", "internal/platform/postgres"}, outside: []string{ids}, why: "which runs and executions change; IDs and states only"},
	"internal/workflow/hook": {
		level:   11,
		inside:  []string{"gen/", "internal/platform/throttle", "internal/account/audit", "internal/kit/content", "internal/kit/cursor", "internal/kit/fault", "internal/platform/idempotency", "internal/platform/notify", "internal/platform/permit", "internal/platform/postgres", "internal/workflow/run", "internal/secret/seal", "internal/secret/signature", "internal/secret/vault", "internal/kit/status", "internal/kit/strictjson", "internal/kit/timestamp", "internal/kit/envref", "internal/kit/uuid7"},
		outside: []string{ids, pgx, "github.com/tidwall/gjson"}, why: "runs started by webhooks of other services",
	},
	"internal/workflow/schedule": {
		level:   11,
		inside:  []string{"gen/", "internal/account/audit", "internal/component", "internal/component/modules/logic", "internal/execution/present", "internal/kit/cron", "internal/kit/cursor", "internal/kit/envref", "internal/kit/failpoint", "internal/kit/fault", "internal/kit/strictjson", "internal/kit/timestamp", "internal/platform/idempotency", "internal/platform/budget", "internal/platform/notify", "internal/platform/permit", "internal/platform/postgres", "internal/secret/vault", "internal/workflow/orchestrator", "internal/workflow/run", "internal/kit/wait", "internal/kit/uuid7"},
		outside: []string{ids, pgx}, why: "runs started by a schedule",
	},

	"internal/web/browsertest": {level: 1, inside: []string{"internal/kit/waittest"}, why: "scripts that drive a real browser", tests: true},
	"internal/web/protocol": {
		level: 2, inside: []string{"internal/kit/fault", "internal/kit/strictjson"}, outside: []string{ids},
		why: "the form of a request, checked before it is read",
	},
	"internal/web/contract": {
		level: 3, inside: []string{"gen/api", "internal/kit/fault", "internal/kit/strictjson", "internal/kit/jsonschema"},
		outside: []string{spec}, why: "the spec's rules, compiled once",
	},
	"internal/web/catalog": {level: 7, inside: []string{"gen/api", "internal/component", "internal/kit/cursor", "internal/kit/fault", "internal/component/graph", "internal/kit/jsonschema"}, why: "descriptions of components for callers"},
	"internal/web/portal": {
		level: 8, inside: []string{"conformance/clients", "conformance/signers", "gen/api", "internal/web/catalog", "internal/kit/fault", "internal/web/protocol", "internal/web/style", "internal/secret/signcheck", "internal/account/plan"}, outside: []string{"github.com/oasdiff/yaml3", "github.com/yuin/goldmark"},
		why: "the docs: guides, and pages generated from the spec, the catalogue, the signing kit and the clients",
	},
	"internal/web/style":    {level: 0, why: "the colors, fonts and sizes of all pages"},
	"internal/web/diagram":  {level: 0, why: "graphs as pictures; pure, and independent of runs"},
	"internal/web/page":     {level: 9, inside: []string{"internal/secret/vault", "gen/api", "internal/account/audit", "internal/account/auth", "internal/account/person", "internal/kit/fault", "internal/kit/timestamp", "internal/platform/postgres", "internal/web/protocol", "internal/web/style"}, outside: []string{ids}, why: "what all pages for people have in common"},
	"internal/web/settings": {level: 10, inside: []string{"gen/api", "internal/account/audit", "internal/account/auth", "internal/account/billing", "internal/web/contract", "internal/kit/fault", "internal/web/page", "internal/web/protocol", "internal/account/person", "internal/account/workspace", "internal/workflow", "internal/kit/uuid7"}, outside: []string{ids}, why: "the pages of the settings; no SQL, no API"},
	"internal/web/form":     {level: 8, inside: []string{"internal/kit/fault", "internal/kit/jsonschema", "internal/kit/strictjson", "internal/web/catalog"}, pure: true, why: "forms from JSON Schemas; pure"},
	"internal/web/console":  {level: 12, inside: []string{"internal/platform/permit", "gen/api", "internal/account/billing", "internal/account/ratelimit", "internal/component", "internal/component/graph", "internal/execution", "internal/execution/callback", "internal/execution/present", "internal/kit/credit", "internal/kit/fault", "internal/kit/status", "internal/kit/strictjson", "internal/web/catalog", "internal/web/contract", "internal/web/diagram", "internal/web/form", "internal/web/page", "internal/web/portal", "internal/account/person", "internal/platform/idempotency", "internal/platform/notify", "internal/workflow", "internal/workflow/orchestrator", "internal/workflow/run", "internal/workflow/schedule", "internal/kit/uuid7"}, outside: []string{ids}, why: "the pages of the console; no SQL, no API"},
	"internal/web/server": {
		level:   12,
		inside:  []string{"internal/secret/vault", "gen/api", "internal/platform/throttle", "internal/platform/budget", "internal/account/audit", "internal/account/auth", "internal/account/billing", "internal/execution/callback", "internal/web/catalog", "internal/component", "internal/web/contract", "internal/kit/cursor", "internal/kit/credit", "internal/platform/egress", "internal/workflow/orchestrator", "internal/account/environment", "internal/execution", "internal/kit/fault", "internal/web/protocol", "internal/workflow/changes", "internal/workflow/hook", "internal/platform/idempotency", "internal/platform/notify", "internal/account/person", "internal/web/portal", "internal/account/ratelimit", "internal/execution/present", "internal/workflow/run", "internal/workflow/schedule", "internal/platform/sse", "internal/kit/status", "internal/kit/strictjson", "internal/platform/telemetry", "internal/kit/timestamp", "internal/platform/postgres", "internal/workflow", "internal/account/workspace"},
		outside: []string{ids, traces}, why: "HTTP only: no SQL, no queue; it imports postgres only to decide on 503",
	},

	"internal/local/sidecar":      {level: 1, why: "child programs: downloaded, started, stopped"},
	"internal/local/receiver":     {level: 2, inside: []string{"internal/secret/signature", "internal/kit/status", "internal/kit/strictjson", "internal/kit/timestamp", "internal/kit/wait"}, outside: []string{ids}, why: "receives callbacks as a customer's program would; prints nothing"},
	"internal/local/devdb":        {level: 2, inside: []string{"internal/local/sidecar"}, outside: []string{pgx}, why: "a private PostgreSQL; independent of the schema"},
	"internal/local/devchain":     {level: 2, inside: []string{"internal/local/sidecar"}, why: "a private EVM chain; independent of components"},
	"internal/local/client":       {level: 3, inside: []string{"gen/api", "internal/secret/signature", "internal/platform/sse", "internal/kit/strictjson"}, outside: []string{ids}, why: "the API client"},
	"internal/local/proxy":        {level: 6, inside: []string{"internal/local/client", "internal/platform/egress", "internal/web/protocol"}, why: "signs and forwards requests of this machine; prints nothing"},
	"internal/local/pgtest":       {level: 3, inside: []string{"internal/platform/postgres", "internal/local/devdb", "internal/kit/waittest"}, outside: []string{pgx}, why: "test databases", tests: true},
	"internal/local/workflowfile": {level: 3, inside: []string{"internal/kit/calendar", "internal/kit/fault", "internal/kit/spelling", "internal/kit/strictjson"}, outside: []string{"github.com/oasdiff/yaml3"}, why: "workflows as files for people; independent of the API's client"},
	"internal/local/demo":         {level: 3, inside: []string{"internal/kit/wait"}, why: "the demo upstream of weft dev"},

	"internal/program/rotation":    {level: 12, inside: []string{"gen/db", "internal/execution/callback", "internal/account/environment", "internal/execution", "internal/kit/fault", "internal/workflow/hook", "internal/platform/postgres", "internal/secret/seal", "internal/secret/vault", "internal/workflow", "internal/kit/wait"}, outside: []string{ids, pgx}, why: "re-encryption under another master key"},
	"internal/program/backup":      {level: 13, inside: []string{"internal/platform/postgres", "internal/program/rotation", "internal/secret/seal"}, outside: []string{pgx, "golang.org/x/sys/unix"}, why: "backup and restore by PostgreSQL's own programs"},
	"internal/program/pagetest":    {level: 14, inside: []string{"internal/account/person", "internal/account/plan", "internal/account/workspace", "internal/kit/credit", "internal/kit/waittest", "internal/local/pgtest", "internal/platform/postgres", "internal/platform/telemetry", "internal/program/app"}, outside: []string{ids, pgx}, why: "a Weft and a browser for tests of pages", tests: true},
	"internal/program/app":         {level: 13, inside: []string{"internal/", "gen/"}, outside: []string{ids, pgx, river, traces, "github.com/KimMachineGun/automemlimit"}, why: "construction, and the order of start and stop"},
	"internal/program/bench":       {level: 16, inside: []string{"internal/", "gen/"}, outside: []string{ids, pgx, river, "github.com/prometheus/procfs", "golang.org/x/sync"}, why: "benchmarks of the whole service"},
	"internal/program/conformseed": {level: 14, inside: []string{"conformance/probe", "internal/account/auth", "internal/account/billing", "internal/kit/credit", "internal/account/person", "internal/account/plan", "internal/account/workspace", "internal/platform/postgres", "internal/kit/uuid7"}, outside: []string{ids, pgx}, why: "server-side data for the conformance cases"},
	"internal/program/prose":       {level: 0, why: "the check of texts against the writing style"},
	"internal/program/dist":        {level: 0, why: "the packages that users install; no part of the service"},
	"internal/program/chaos":       {level: 14, why: "only tests: faults under load"},
	"internal/program/cli":         {level: 15, inside: []string{"internal/", "gen/", "conformance", "conformance/probe"}, outside: []string{ids, pgx, "github.com/alecthomas/kong", "github.com/itchyny/gojq", "github.com/sergi/go-diff", "golang.org/x/net/netutil", "golang.org/x/sys/unix"}, why: "one file for each command"},

	// The contract, tested from outside, and files that users copy or import.
	"conformance/clients":            {level: 0, why: "the clients: files to copy"},
	"conformance/signers":            {level: 0, why: "the signing kit: files to copy, and vectors"},
	"conformance/clients/go":         {level: 1, outside: []string{"github.com/oapi-codegen/runtime"}, why: "the Go client; any module may import it"},
	"conformance/clients/go/journey": {level: 2, inside: []string{"conformance/clients/go", "conformance/signers"}, outside: []string{ids}, why: "its example"},
	"conformance/probe":              {level: 13, inside: []string{"gen/api"}, outside: []string{spec, schema, ids, "github.com/oasdiff/yaml"}, why: "requests and checks of the conformance cases"},
	"conformance":                    {level: 14, inside: []string{"gen/api", "conformance/"}, outside: []string{ids, spec}, why: "the contract, tested from outside: its own signer, no internal package"},
	"conformance/judges":             {level: 16, why: "only tests: third-party tools check the service"},

	"cmd/weft": {level: 16, inside: []string{"internal/program/app", "internal/program/cli"}, why: "flags, signals, exit code"},
}

// listed is the part of go list's output that is used.
type listed struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p listed
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		all = append(all, p)
	}
	return all
}

func hasPrefix(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
	})
}

// groupOf returns the group of a package of this module, or "" if it is in none.
func groupOf(path string) string {
	parts := strings.SplitN(path, "/", 3)
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	if parts[0] == "gen" {
		return parts[0]
	}
	return ""
}

// mayImport reports whether the line allows importing the package of this module.
func (p place) mayImport(target string) bool {
	return slices.ContainsFunc(p.inside, func(allowed string) bool {
		return target == allowed || strings.HasSuffix(allowed, "/") && strings.HasPrefix(target, allowed)
	})
}

func TestGroupsImportGroupsOfLowerRank(t *testing.T) {
	for _, p := range packages(t) {
		name := groupOf(p.ImportPath)
		here, known := groups[name]
		if name == "" {
			continue
		}
		if !known {
			t.Errorf("%s is in no group", p.ImportPath)
		}
		for _, path := range p.Imports {
			target, ours := strings.CutPrefix(path, module)
			if hasPrefix(target, here.denied) {
				t.Errorf("%s imports %s, which %s must not import (%s)", p.ImportPath, target, name, here.why)
			}
			if there := groupOf(target); ours && there != name && groups[there].rank >= here.rank && there != "" {
				t.Errorf("%s (%s, rank %d) imports %s (rank %d)", p.ImportPath, name, here.rank, target, groups[there].rank)
			}
		}
	}
}

// A reader meets the groups first, so there are few groups.
func TestInternalContainsOnlyGroups(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root(t), "internal"))
	if err != nil || len(entries) > maxEntries {
		t.Errorf("internal/ has %d entries, at most %d, %v", len(entries), maxEntries, err)
	}
	present := map[string]bool{"gen": true}
	for _, entry := range entries {
		name := "internal/" + entry.Name()
		present[name] = true
		if _, known := groups[name]; entry.IsDir() && !known && name != "internal/tools" {
			t.Errorf("%s is not a group", name)
		}
	}
	for name := range groups {
		if !present[name] {
			t.Errorf("%s is in the table of groups but does not exist", name)
		}
	}
}

func TestImportsGoDownwards(t *testing.T) {
	for _, p := range packages(t) {
		here, known := places[p.ImportPath]
		if !known {
			t.Errorf("%s is missing in the table of places", p.ImportPath)
			continue
		}
		for _, path := range p.Imports {
			target, ours := strings.CutPrefix(path, module)
			switch there := places[target]; {
			case !ours && strings.Contains(strings.SplitN(path, "/", 2)[0], "."):
				if !hasPrefix(path, here.outside) {
					t.Errorf("%s (%s) imports %s, which is not in its line", p.ImportPath, here.why, path)
				}
			case here.pure && path == "context":
				t.Errorf("%s (%s) imports context", p.ImportPath, here.why)
			case !ours: // the standard library
			case there.tests && !here.tests:
				t.Errorf("%s imports %s, which is for test files", p.ImportPath, target)
			case there.level >= here.level:
				t.Errorf("%s (level %d) imports %s (level %d)", p.ImportPath, here.level, target, there.level)
			case !here.mayImport(target):
				t.Errorf("%s (%s) imports %s, which is not in its line", p.ImportPath, here.why, target)
			}
		}
	}
}

func TestPlacesHaveNoStaleEntries(t *testing.T) {
	var present []string
	for _, p := range packages(t) {
		present = append(present, p.ImportPath)
	}
	for path := range places {
		if !slices.Contains(present, path) {
			t.Errorf("%s is in the table of places but does not exist", path)
		}
	}
}
