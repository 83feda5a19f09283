package app_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weft-automation/weft/"

// place is where a package stands and what it may know of.
type place struct {
	level   int      // imports go downwards only, never to the own level
	inside  []string // prefixes of our packages that it may import
	outside []string // prefixes of other modules' packages; std is free
	why     string
	// tests marks what only test files may import.
	tests bool
}

// Prefixes of what many packages need.
const (
	ids    = "github.com/google/uuid"
	pgx    = "github.com/jackc/pgx/v5"
	river  = "github.com/riverqueue/river"
	schema = "github.com/santhosh-tekuri/jsonschema/v6"
	spec   = "github.com/getkin/kin-openapi"
	traces = "go.opentelemetry.io/otel"
)

// places is the law of imports. A new package stands here before it compiles in
// CI; who widens a line says why.
var places = map[string]place{
	// Leaves: words that every level shares.
	"internal/status":     {level: 0, why: "state names, shared by rows and wire"},
	"internal/credit":     {level: 0, why: "amounts, shared by rows and wire"},
	"internal/timestamp":  {level: 0, why: "the wire form of times"},
	"internal/fault":      {level: 0, why: "the one error with a meaning across packages"},
	"internal/crashpoint": {level: 0, why: "named places where a test kills the process"},

	"internal/plan":    {level: 1, inside: []string{"internal/credit"}, why: "what the plans give"},
	"internal/storage": {level: 1, inside: []string{"internal/credit"}, why: "what runs may store, and what that costs"},

	// Pure tools: no database, no domain.
	"internal/cursor":            {level: 1, inside: []string{"internal/fault"}, outside: []string{ids}, why: "the place of a page in a list"},
	"internal/signature":         {level: 1, inside: []string{"internal/fault"}, why: "what bytes are signed"},
	"internal/strictjson":        {level: 1, inside: []string{"internal/fault"}, why: "what JSON may be decoded"},
	"internal/sse":               {level: 1, why: "framing of event streams"},
	"internal/seal":              {level: 1, outside: []string{ids}, why: "envelope encryption"},
	"internal/echo":              {level: 1, why: "how a secret is found in what repeats it"},
	"internal/egress":            {level: 1, inside: []string{"internal/fault"}, outside: []string{"code.dny.dev/ssrf"}, why: "the one way out to the network"},
	"internal/egress/egresstest": {level: 1, outside: []string{"golang.org/x/net/dns/dnsmessage"}, why: "hostile names and servers", tests: true},
	"internal/attempt":           {level: 1, why: "attempts that fail, limited by source"},
	"internal/budget":            {level: 1, why: "what is held at once, bounded in total and by source"},
	"internal/mail":              {level: 1, outside: []string{"github.com/wneessen/go-mail"}, why: "e-mail through the operator's SMTP server"},
	"internal/mail/mailtest":     {level: 1, outside: []string{"github.com/emersion/go-smtp"}, why: "an SMTP server for tests", tests: true},
	"internal/expression":        {level: 2, inside: []string{"internal/fault", "internal/strictjson"}, outside: []string{"github.com/expr-lang/expr"}, why: "what conditions and transforms compute"},
	"internal/cron":              {level: 1, why: "cron expressions and their times; no clock"},
	"internal/footprint":         {level: 1, why: "what the process holds of the machine's memory"},
	"internal/sidecar":           {level: 1, why: "programs beside this one: fetched, started, ended"},
	"internal/waittest":          {level: 0, why: "waits of tests, limited by go test alone", tests: true},
	"internal/browsertest":       {level: 1, inside: []string{"internal/waittest"}, why: "scripts that drive a real browser", tests: true},
	"internal/openapi30":         {level: 0, why: "the document in the words of OpenAPI 3.0; knows nothing of Weft"},
	"internal/clock":             {level: 0, why: "PostgreSQL's time, without asking for it"},
	"internal/groupcommit":       {level: 1, why: "many writes in one transaction"},
	"internal/graph":             {level: 1, inside: []string{"internal/status"}, why: "what a workflow's definition means; no database, no clock, no log"},

	// Storage, wire and telling: what is generated, and the server itself.
	"gen": {level: 1, why: "only a test: what is generated is fresh"},
	"gen/api": {
		level: 1, inside: []string{"internal/status", "internal/credit", "internal/timestamp", "internal/fault"},
		outside: []string{ids, "github.com/oapi-codegen/runtime", spec}, why: "wire types and routing",
	},
	"gen/db": {
		level: 1, inside: []string{"internal/status", "internal/credit", "internal/fault"},
		outside: []string{ids, pgx}, why: "queries and rows",
	},
	"internal/postgres/migrations": {level: 0, why: "the schema's changes, as files"},
	"internal/postgres":            {level: 1, inside: []string{"internal/postgres/migrations"}, outside: []string{ids, pgx, river, "github.com/vgarvardt/pgx-google-uuid/v5"}, why: "pools and migrations, no word of the domain"},
	"internal/telemetry":           {level: 1, inside: []string{"internal/status"}, outside: []string{ids, pgx, traces, "github.com/prometheus/client_golang"}, why: "what Weft says about itself"},

	// What the parts rest on.
	"internal/gate": {
		level: 2, inside: []string{"internal/fault", "internal/strictjson"}, outside: []string{ids},
		why: "the form of a request, before anything reads it",
	},
	"internal/receiver": {level: 2, inside: []string{"internal/signature", "internal/status", "internal/strictjson", "internal/timestamp"}, outside: []string{ids}, why: "callbacks taken as a customer's program would; prints nothing"},
	"internal/mistake":  {level: 2, inside: []string{"internal/strictjson"}, why: "how signers go wrong; no keys"},
	"internal/variable": {level: 2, inside: []string{"internal/fault", "internal/strictjson"}, why: "how texts name variables"},
	"internal/devdb":    {level: 2, inside: []string{"internal/sidecar"}, outside: []string{pgx}, why: "a private server, no word of the schema"},
	"internal/devchain": {level: 2, inside: []string{"internal/sidecar"}, why: "a private EVM chain, no word of components"},
	"internal/audit": {
		level: 2, inside: []string{"gen/", "internal/attempt", "internal/cursor", "internal/fault", "internal/postgres", "internal/telemetry", "internal/timestamp"}, outside: []string{ids},
		why: "who did what; every part above may tell it",
	},

	// Parts: each knows one thing.
	"internal/postgres/pgtest": {level: 3, inside: []string{"internal/postgres", "internal/devdb", "internal/waittest"}, outside: []string{pgx}, why: "test databases", tests: true},
	"internal/record":          {level: 3, inside: []string{"gen/", "internal/fault", "internal/seal", "internal/timestamp", "internal/status", "internal/strictjson"}, outside: []string{ids}, why: "row to record, the only place where shapes change, and what a record says of an output that no key opens"},
	"internal/notify":          {level: 3, inside: []string{"internal/postgres", "internal/telemetry"}, outside: []string{ids, pgx}, why: "wake-ups that may be lost"},
	"internal/idempotency":     {level: 3, inside: []string{"gen/db", "internal/fault", "internal/postgres"}, outside: []string{ids, pgx}, why: "keys of repeated requests"},
	"internal/vault":           {level: 3, inside: []string{"gen/db", "internal/fault", "internal/postgres", "internal/seal"}, outside: []string{ids}, why: "secret outputs at rest; it does not know which are"},
	"internal/retention":       {level: 3, inside: []string{"gen/db", "internal/postgres", "internal/telemetry"}, outside: []string{pgx}, why: "partitions made and dropped"},
	"internal/billing":         {level: 3, inside: []string{"gen/", "internal/audit", "internal/crashpoint", "internal/credit", "internal/cursor", "internal/fault", "internal/plan", "internal/postgres", "internal/storage", "internal/timestamp"}, outside: []string{ids, pgx}, why: "accounts and the ledger"},
	"internal/auth": {
		level: 3, inside: []string{"gen/", "internal/attempt", "internal/audit", "internal/cursor", "internal/fault", "internal/mistake", "internal/postgres", "internal/signature", "internal/strictjson", "internal/telemetry", "internal/timestamp"},
		outside: []string{ids, pgx, "golang.org/x/sync"}, why: "keys and principals, no route names",
	},
	"internal/person": {
		level: 3, inside: []string{"gen/", "internal/attempt", "internal/audit", "internal/cursor", "internal/fault", "internal/mail", "internal/postgres", "internal/seal", "internal/timestamp"},
		outside: []string{ids, pgx, "golang.org/x/crypto"}, why: "people, their sessions and roles; no route names",
	},
	"internal/contract": {
		level: 3, inside: []string{"gen/api", "internal/fault", "internal/strictjson"},
		outside: []string{spec, schema}, why: "the spec's rules, compiled once",
	},
	"internal/component": {
		level: 3, inside: []string{"internal/credit", "internal/echo", "internal/fault", "internal/graph", "internal/strictjson", "internal/variable"},
		outside: []string{ids, schema}, why: "what a module is; no database, no queue, no HTTP server",
	},
	"internal/workspace": {
		level: 3, inside: []string{"gen/", "internal/audit", "internal/credit", "internal/cursor", "internal/fault", "internal/plan", "internal/postgres", "internal/timestamp"}, outside: []string{ids, pgx},
		why: "workspaces and their terms",
	},
	"internal/client": {level: 3, inside: []string{"gen/api", "internal/signature", "internal/sse", "internal/strictjson"}, outside: []string{ids}, why: "the other end of the wire"},
	"internal/demo":   {level: 3, why: "the upstream of weft dev's own"},

	// Modules know the component package and the way out, and nothing of Weft's inside.
	"internal/component/componenttest":       {level: 4, inside: []string{"internal/component", "internal/fault", "internal/egress"}, outside: []string{ids, schema}, why: "what every module must pass", tests: true},
	"internal/component/modules/upstream":    {level: 4, inside: []string{"internal/component", "internal/egress", "internal/credit"}, why: "HTTP calls of modules"},
	"internal/component/modules/utility":     {level: 5, inside: []string{"internal/component", "internal/credit", "internal/fault", "internal/strictjson", "internal/timestamp"}, outside: []string{ids, "filippo.io/age", "golang.org/x/crypto"}, why: "modules that touch nothing"},
	"internal/component/modules/apicall":     {level: 5, inside: []string{"internal/component", "internal/credit", "internal/egress", "internal/graph", "internal/strictjson"}, outside: []string{ids, "github.com/tidwall/gjson"}, why: "API_CALL"},
	"internal/component/modules/logic":       {level: 5, inside: []string{"internal/component", "internal/cron", "internal/expression", "internal/fault", "internal/graph", "internal/signature", "internal/strictjson", "internal/timestamp", "internal/variable"}, why: "control flow: what a run's engine does by name, described and computed"},
	"internal/component/modules/evm":         {level: 5, inside: []string{"internal/component", "internal/credit", "internal/egress", "internal/fault", "internal/strictjson"}, outside: []string{ids, "github.com/adraffy/go-ens-normalize", "github.com/ethereum/go-ethereum"}, why: "modules of EVM chains"},
	"internal/component/modules/evm/evmtest": {level: 5, inside: []string{"internal/waittest"}, outside: []string{"github.com/ethereum/go-ethereum"}, why: "a real node for tests", tests: true},
	"internal/component/modules":             {level: 6, inside: []string{"internal/component", "internal/egress"}, why: "the one list of modules"},

	"internal/catalog": {level: 4, inside: []string{"gen/api", "internal/component", "internal/fault", "internal/graph"}, why: "components described to callers"},

	"internal/workflow": {
		level:   4,
		inside:  []string{"gen/", "internal/audit", "internal/billing", "internal/component", "internal/cursor", "internal/environment", "internal/fault", "internal/graph", "internal/idempotency", "internal/postgres", "internal/record", "internal/seal", "internal/storage", "internal/strictjson", "internal/timestamp", "internal/variable"},
		outside: []string{ids, pgx}, why: "definitions: saved, checked, kept; it runs nothing",
	},

	"internal/environment": {
		level: 3, inside: []string{"gen/", "internal/audit", "internal/cursor", "internal/fault", "internal/postgres", "internal/seal", "internal/strictjson", "internal/timestamp", "internal/variable"},
		outside: []string{ids, pgx}, why: "the variables of a workspace; it resolves nothing",
	},

	"internal/ratelimit": {
		level:  4,
		inside: []string{"gen/db", "internal/fault", "internal/groupcommit", "internal/plan", "internal/postgres", "internal/telemetry", "internal/workspace"}, outside: []string{ids, pgx},
		why: "what a workspace may ask at a time",
	},

	// The product.
	"internal/callback": {
		level:   4,
		inside:  []string{"gen/", "internal/clock", "internal/audit", "internal/crashpoint", "internal/cursor", "internal/egress", "internal/fault", "internal/groupcommit", "internal/notify", "internal/postgres", "internal/record", "internal/seal", "internal/signature", "internal/status", "internal/strictjson", "internal/telemetry", "internal/timestamp", "internal/vault"},
		outside: []string{ids, pgx, river, traces}, why: "delivery; knows nothing of how an execution runs",
	},
	"internal/execution": {
		level:   5,
		inside:  []string{"gen/", "internal/clock", "internal/audit", "internal/billing", "internal/callback", "internal/component", "internal/crashpoint", "internal/credit", "internal/cursor", "internal/egress", "internal/fault", "internal/groupcommit", "internal/idempotency", "internal/notify", "internal/postgres", "internal/record", "internal/seal", "internal/status", "internal/strictjson", "internal/telemetry", "internal/timestamp", "internal/vault"},
		outside: []string{ids, pgx, river, traces, "golang.org/x/sync"}, why: "the life of one execution",
	},
	"internal/engine": {
		level:   6,
		inside:  []string{"gen/", "internal/clock", "internal/billing", "internal/component", "internal/crashpoint", "internal/credit", "internal/environment", "internal/execution", "internal/fault", "internal/graph", "internal/notify", "internal/postgres", "internal/record", "internal/status", "internal/storage", "internal/strictjson", "internal/timestamp", "internal/vault", "internal/variable", "internal/workflow"},
		outside: []string{ids, pgx, river}, why: "how runs go on; nothing of who asks for them",
	},
	"internal/run": {
		level:   7,
		inside:  []string{"gen/", "internal/billing", "internal/component", "internal/crashpoint", "internal/credit", "internal/cursor", "internal/engine", "internal/environment", "internal/execution", "internal/fault", "internal/graph", "internal/notify", "internal/postgres", "internal/status", "internal/storage", "internal/record", "internal/timestamp", "internal/vault", "internal/workflow"},
		outside: []string{ids, pgx, river}, why: "runs, for those who ask for them",
	},
	"internal/hook": {
		level:   8,
		inside:  []string{"gen/", "internal/attempt", "internal/audit", "internal/cursor", "internal/fault", "internal/idempotency", "internal/notify", "internal/postgres", "internal/run", "internal/seal", "internal/signature", "internal/strictjson", "internal/timestamp", "internal/variable"},
		outside: []string{ids, pgx}, why: "runs by what other services deliver",
	},
	"internal/schedule": {
		level:   8,
		inside:  []string{"gen/", "internal/audit", "internal/component", "internal/crashpoint", "internal/cron", "internal/cursor", "internal/fault", "internal/idempotency", "internal/notify", "internal/postgres", "internal/run", "internal/timestamp", "internal/variable"},
		outside: []string{ids, pgx}, why: "runs by a clock",
	},
	"internal/server": {
		level:   9,
		inside:  []string{"gen/api", "internal/attempt", "internal/budget", "internal/audit", "internal/auth", "internal/billing", "internal/callback", "internal/catalog", "internal/component", "internal/contract", "internal/credit", "internal/egress", "internal/engine", "internal/environment", "internal/execution", "internal/fault", "internal/gate", "internal/hook", "internal/idempotency", "internal/notify", "internal/person", "internal/portal", "internal/ratelimit", "internal/record", "internal/run", "internal/schedule", "internal/sse", "internal/status", "internal/strictjson", "internal/telemetry", "internal/timestamp", "internal/postgres", "internal/workflow", "internal/workspace"},
		outside: []string{ids, traces}, why: "HTTP only: no SQL, no queue; of postgres it knows when to say 503",
	},
	"internal/quarantine": {level: 3, inside: []string{"gen/db", "internal/clock", "internal/fault", "internal/postgres"}, outside: []string{pgx}, why: "whether a restored database may be worked on"},
	"internal/rotation": {
		level: 9, inside: []string{"gen/db", "internal/callback", "internal/environment", "internal/execution", "internal/fault", "internal/hook", "internal/postgres", "internal/seal", "internal/vault", "internal/workflow"}, outside: []string{ids, pgx},
		why: "sealing anew under another master key",
	},
	"internal/console": {
		level:   6,
		inside:  []string{"gen/api", "internal/audit", "internal/auth", "internal/billing", "internal/contract", "internal/fault", "internal/gate", "internal/person", "internal/postgres", "internal/timestamp", "internal/workspace"},
		outside: []string{ids}, why: "pages for people; no SQL, no API",
	},
	"internal/portal": {
		level: 5, inside: []string{"conformance/clients", "conformance/signers", "gen/api", "internal/catalog", "internal/fault", "internal/gate", "internal/mistake", "internal/plan"}, outside: []string{"github.com/oasdiff/yaml3", "github.com/yuin/goldmark"},
		why: "the docs: guides, and what is made of the spec, the catalogue, the signing kit and the clients",
	},

	// What users copy or import.
	"conformance/clients/go":         {level: 1, outside: []string{"github.com/oapi-codegen/runtime"}, why: "the client in Go: anybody may import it"},
	"conformance/clients/go/journey": {level: 2, inside: []string{"conformance/clients/go", "conformance/signers"}, outside: []string{ids}, why: "its example"},

	// Everything meets.
	"internal/app":        {level: 10, inside: []string{"internal/", "gen/"}, outside: []string{ids, pgx, river, traces}, why: "construction, order of start and stop"},
	"internal/bench":      {level: 11, inside: []string{"internal/", "gen/"}, outside: []string{ids, pgx, river}, why: "measures the whole"},
	"conformance":         {level: 11, inside: []string{"gen/api", "conformance/"}, outside: []string{ids, spec}, why: "the contract from outside: its own signer, no internal package"},
	"conformance/clients": {level: 0, why: "the clients: files to copy"},
	"conformance/judges":  {level: 13, why: "only tests: tools of others judge the service"},
	"conformance/signers": {level: 0, why: "the signing kit: files to copy, and vectors"},
	"conformance/probe":   {level: 10, inside: []string{"gen/api"}, outside: []string{spec, schema, ids, "github.com/oasdiff/yaml"}, why: "requests and checks of the conformance cases"},
	"internal/guest": {
		level: 11, inside: []string{"conformance/probe", "internal/auth", "internal/billing", "internal/credit", "internal/person", "internal/plan", "internal/workspace"}, outside: []string{ids, pgx},
		why: "what the conformance cases need of the server's side",
	},
	"internal/chaos": {level: 11, why: "only tests: processes killed under load"},
	"internal/cli":   {level: 12, inside: []string{"internal/", "gen/", "conformance", "conformance/probe"}, outside: []string{ids, pgx, "github.com/alecthomas/kong", "golang.org/x/net/netutil"}, why: "one file a command"},
	"cmd/weft":       {level: 13, inside: []string{"internal/app", "internal/cli"}, why: "flags, signals, exit code"},
}

// listed is what go list says of a package.
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

func TestImportsGoDownwards(t *testing.T) {
	for _, p := range packages(t) {
		here, known := places[p.ImportPath]
		if !known {
			t.Errorf("%s has no place in the table", p.ImportPath)
			continue
		}
		for _, path := range p.Imports {
			target, ours := strings.CutPrefix(path, module)
			switch there := places[target]; {
			case !ours && strings.Contains(strings.SplitN(path, "/", 2)[0], "."):
				if !hasPrefix(path, here.outside) {
					t.Errorf("%s (%s) imports %s, which is not in its line", p.ImportPath, here.why, path)
				}
			case !ours: // the standard library
			case there.tests && !here.tests:
				t.Errorf("%s imports %s, which is for test files", p.ImportPath, target)
			case there.level >= here.level:
				t.Errorf("%s (level %d) imports %s (level %d)", p.ImportPath, here.level, target, there.level)
			case !hasPrefix(target, here.inside):
				t.Errorf("%s (%s) imports %s, which is not in its line", p.ImportPath, here.why, target)
			}
		}
	}
}

func TestTheTableHasNoStalePlaces(t *testing.T) {
	var present []string
	for _, p := range packages(t) {
		present = append(present, p.ImportPath)
	}
	for path := range places {
		if !slices.Contains(present, path) {
			t.Errorf("%s stands in the table and is not there", path)
		}
	}
}
