package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// What to do if a list is empty. With weft dev, all of them work as they are.
const (
	startRun       = "weft run fanOut"
	startExecution = "weft call RANDOM_UUID"
	pushNightly    = "workflows new --from nightly nightly.yaml && weft workflows push nightly.yaml"
	pushGitHub     = "workflows new --from github github.yaml && weft workflows push github.yaml"
	createSchedule = "weft " + pushNightly + " && weft schedules create 'Nightly fan-out' '@daily'"
	createHook     = "weft " + pushGitHub + " && weft hooks create 'GitHub push' --header X-Hub-Signature-256 --prefix sha256="
)

// examples has the lines of the Examples section of each command, without the program's name. With weft dev,
// they work as they are, from top to bottom.
var examples = map[string]string{
	"dev":     "dev\ndev --allow-network 127.0.0.0/8 --callback-schedule 0s,1s,5s\ndev --addr 0.0.0.0:8080 --expose",
	"serve":   "serve --addr 0.0.0.0:8080",
	"work":    "work --ops-addr 127.0.0.1:9091",
	"migrate": "migrate --database-url postgres://weft@db/weft",

	"config show":  "config show\nconfig show --config weft.env -o json",
	"config check": "config check --config weft.env",

	"call": "call RANDOM_UUID\ncall HASH algorithm=keccak256 data=hello\ncall API_CALL apiUrl=https://example.com method=GET --deadline 1m -o json",
	"run":  "run fanOut --watch\nworkflows new --from branch branch.yaml && weft run branch.yaml --input '{\"amount\": 200}'",

	"components list":   "components list\ncomponents list --category UTILITY --jq '.[].module'",
	"components search": "components search webhook",
	"components get":    "components get HASH",

	"executions list":            "executions list --module HASH --since 2h\nexecutions list --status FAILED --jq '.[].id'",
	"executions get":             "executions get --last\nexecutions get --last --jq .output",
	"executions watch":           "executions watch --last",
	"executions cancel":          "executions cancel --last --reason 'wrong amount'",
	"executions replay-callback": "executions replay-callback --last --force",

	"runs list":   "runs list --workflow fanOut --status FAILED --since 2h\nruns list --trigger SCHEDULE --since 2026-11-01 --until 7d\nruns list --all --jq '.[].id'",
	"runs get":    "runs get --last\nruns get --last --jq .output",
	"runs watch":  "runs watch --last",
	"runs signal": "runs signal --last approved --payload '{\"by\": \"ada\"}'",
	"runs cancel": "runs cancel --last --reason 'wrong amount'",
	"runs rerun":  "runs rerun --last --watch",

	"runs replay-callback": "runs replay-callback --last --force",

	"workflows list":     "workflows list\nworkflows list --status ARCHIVED",
	"workflows get":      "workflows get fanOut",
	"workflows new":      "workflows new\nworkflows new --from approval approval.yaml",
	"workflows push":     pushNightly,
	"workflows pull":     "workflows pull fanOut --out fanOut.yaml",
	"workflows diff":     "workflows pull fanOut --out fanOut.yaml && weft workflows diff fanOut.yaml",
	"workflows validate": "workflows pull fanOut --out fanOut.yaml && weft workflows validate fanOut.yaml",
	"workflows quote":    "workflows quote fanOut",
	"workflows pause":    "workflows pause fanOut",
	"workflows resume":   "workflows resume fanOut",
	"workflows archive":  "workflows archive fanOut",

	"schedules list":   "schedules list\nschedules list --workflow fanOut",
	"schedules create": pushNightly + "\nschedules create 'Nightly fan-out' '0 9 * * MON-FRI' --time-zone Europe/Berlin --name weekdays",
	"schedules get":    "schedules get weekdays",
	"schedules update": "schedules update weekdays --cron '@hourly'\nschedules update weekdays --input '{\"customer\": \"acme\"}' --previous null\nschedules update weekdays --callback-url https://hooks.example.org/weft --callback-secret-file secret.txt --deadline 2h",
	"schedules pause":  "schedules pause weekdays",
	"schedules resume": "schedules resume weekdays",
	"schedules delete": "schedules delete weekdays",

	"hooks list":   "hooks list",
	"hooks create": pushGitHub + "\nhooks create 'GitHub push' --name pushes --header X-Hub-Signature-256 --prefix sha256= < secret.txt",
	"hooks get":    "hooks get pushes",
	"hooks update": "hooks update pushes --header X-Hub-Signature-256 --prefix sha256= --delivery-header X-GitHub-Delivery\nhooks update pushes --callback-url https://hooks.example.org/weft --callback-secret-file secret.txt --deadline 2h",
	"hooks pause":  "hooks pause pushes",
	"hooks resume": "hooks resume pushes",
	"hooks test":   "hooks test pushes --preset github < secret.txt",
	"hooks delete": "hooks delete pushes",

	"env list":  "env list",
	"env get":   "env get API_URL",
	"env set":   "env set API_URL https://example.com\nenv set API_TOKEN --secret < token.txt",
	"env unset": "env unset API_URL",

	"profile list":   "profile list",
	"profile show":   "profile show\nprofile show prod",
	"profile add":    "profile add dev .weft/credentials.json\nprofile add prod key.json --base-url https://weft.example.com",
	"profile use":    "profile use prod",
	"profile remove": "profile remove prod",

	"open":    "open\nopen --last\nopen --last --print",
	"whoami":  "whoami",
	"credits": "credits\ncredits --jq .availableCredits",
	"usage":   "usage",
	"limits":  "limits",
	"api":     "api '/v1/sdk/workflows?limit=1'\napi POST /v1/sdk/components --body '{\"module\": \"RANDOM_UUID\", \"input\": {}, \"config\": {}, \"waitForMs\": 5000}'",

	"listen":  "listen\nlisten --once --timeout 30s --body",
	"proxy":   "proxy\nproxy --allow 'GET /v1/sdk'",
	"conform": "conform --parts\nconform --only 5.3 --guests",
	"doctor":  "doctor",

	"keys create":        "keys create --label ci --out ci.json",
	"keys list":          "keys list",
	"keys rotate":        "keys rotate 019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6f --overlap 24h --out ci.json",
	"keys revoke":        "keys revoke 019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6f",
	"keys rotate-master": "keys rotate-master",
	"admin owner":        "admin owner shop ada@example.com --new-workspace",
	"admin suspend":      "admin suspend demo --reason 'sends spam'",
	"admin resume":       "admin resume demo",
	"admin password":     "admin password ada@example.com",
	"admin credits":      "admin credits shop 1000",
	"admin plan set":     "admin plan set shop growth",
	"audit":              "audit\naudit shop",
	"backup":             "backup /backup/weft\nbackup --config /etc/weft/weft.env /backup/weft",
	"restore":            "restore --config /etc/weft/weft.env --config /etc/weft/master-key.env /backup/weft",
	"quarantine status":  "quarantine status --list",
	"quarantine begin":   "quarantine begin --reason 'restored from a backup'",
	"quarantine release": "quarantine release --fail-unsafe",

	"version":    "version",
	"help":       "help exit-codes\nhelp workflows push\nhelp --man man1",
	"completion": "completion bash",
}

// settings describes where serve and work read their settings.
const settings = "The settings are environment variables or lines in the files of --config. DATABASE_URL and WEFT_MASTER_KEY must be set. The guide /docs/settings describes all of them, weft config check checks them, and weft config show shows where each comes from."

// passwordSource says where the password is read from.
const passwordSource = "password is the value of WEFT_ADMIN_PASSWORD. If this variable is not set, weft asks for the password on a terminal, and otherwise reads it from the first line of standard input. The password must have 12 to 256 characters."

// details has the text of --help that follows the sentence about a command.
var details = map[string]string{
	"serve":              settings,
	"work":               settings,
	"call":               "weft components get MODULE lists the fields. A dotted name sets a field of an object (headers.Accept=text/plain), and config.NAME a field of the config where the input has one of that name. A list is one value, in JSON. Secrets are better taken from a file, where no list of processes shows them.",
	"components get":     "A description ends with a weft call command that works.",
	"backup":             "Runs pg_dump, in its directory format, and adds weft.json, which lists the rows of each table and names the versions and the master key by its fingerprint. The key itself is not in the backup. The command fails if row-level security may hide a row from the user of the database. The folder appears once the backup is complete, and replaces an older backup then. PG_BIN names the folder of PostgreSQL's programs if PATH does not find them.",
	"restore":            "Runs pg_restore and psql, in one transaction: if anything fails, the database stays empty. DATABASE_URL must be an empty database, as its owner, and WEFT_MASTER_KEY the key of the backup. The roles weft_api and weft_system are created if they are missing, the rows of each table are compared with those of the backup, and the database is in quarantine. Run weft migrate next.",
	"completion":         "In the current shell, run source <(weft completion bash), source <(weft completion zsh), or weft completion fish | source. The comments in the script say how to load it in every shell. Modules and fields come from the catalogue of this program, not of the service.",
	"runs rerun":         "The new run has the input of the earlier run, and the current version of the workflow. Stages that completed are reused: they neither run nor cost again.",
	"workflows diff":     "Lines of the saved workflow only start with -, and lines of the file only with +. The exit code is 0 if they have the same content, and 1 if they differ.",
	"workflows validate": "Each fault and each warning is a line FILE:LINE:COLUMN: CODE MESSAGE. With -o json, the result is a list with an object for each file. The exit code is 6 if a file has faults, and 0 if there are only warnings.",
	"env set":            "A secret value is read from standard input, without the line break, or prompted for, because other users can see arguments. Runs that start from now on use the new value.",
	"hooks create":       "The shared secret is read from standard input, without the line break, or prompted for, because other users can see arguments. Without --preset, --scheme, --header and --standard-webhooks, the workflow's ON_WEBHOOK defines everything, including the secret.",
	"hooks update":       "What no flag names stays, but --preset, --scheme, --header and --standard-webhooks set the whole verification, apart from the secret. The address of the hook stays the same.",
	"hooks test":         "The delivery has the form of those of the sender, and is signed with the secret of the hook, which is read from standard input or prompted for. It starts a run. The exit code is 0 if the hook accepts it and, if the hook responds, the run does not fail.",
	"listen":             "Prints a line for each delivery and answers 204, or 401 if a secret is set and the signature is not valid. With --once or --count, the exit code is 0 if all deliveries arrived in time and were valid; failures injected by --fail do not count.",
	"api":                "The request goes to the base URL of the credentials. Redirects are not followed.",
	"keys rotate":        "The new key has the label and the workflows of the old key, and works at once. A key can be rotated once.",
	"admin owner":        "For an address that has an account, use --existing. A verified account keeps its password. If the address was never verified, nobody knows who chose the password, so the account gets a new password, and its sessions end. The " + passwordSource,
	"admin password":     "The " + passwordSource,
	"conform": `Runs cases against a deployment and prints a table by part of the contract. THE CONTRACT is what every deployment owes. CHOICES are what the contract leaves open and Weft decided; a deployment that decided otherwise breaks nothing, unless --strict says so. Of each part the table knows one of these:

PROVEN: a case saw it. FAILED: a case saw the contract broken; it speaks against all parts that it proves, and its message says which thing it was. OTHERWISE: a choice that was made otherwise. OPEN: a choice that no case came to, since something else was otherwise before. NOT JUDGED: a case failed because the deployment was too busy or the connection broke. NOT RUN: its cases need what this deployment or this command was not given; the list below the table says what, and how to give it. UNSEEN: no case is there for it, mostly since it cannot be seen from outside; the list says who proves it.

A few cases that fail are run once more, alone: one that passes then is reported as UNSTEADY, which is a busy machine more often than a broken contract. A 429 or 503 is repeated after its Retry-After, for up to a minute. Ctrl-C ends it early and prints what is known by then.

--guests creates workspaces, keys and people for the cases, in the database of weft dev or in that of --database-url: limits, credits and the walls between workspaces are proven by them. The workspaces stay there. At the end, also after Ctrl-C, the schedules, hooks and variables that the cases created are deleted, their workflows archived, their invitations and keys revoked, and their members removed. Executions and runs stay: use a workspace for tests, without limits (the plan enterprise).

Cases about failing callbacks wait for the next attempt. Of a weft dev its --callback-schedule is known; of any other deployment it is taken to be that of production, unless --callback-schedule says otherwise. Where it is longer than ten seconds in all, its end is not waited for.

The exit code is 0 when the contract is broken nowhere, 1 when it is, or when the run was broken off or could not begin, 2 when a flag was not understood, and 3 when the contract is broken nowhere but some part was not judged.`,
}

// printHelp prints the help of a command, and its examples.
func printHelp(options kong.HelpOptions, parsed *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, parsed); err != nil {
		return err
	}
	node := parsed.Selected()
	if node == nil || examples[node.Path()] == "" {
		return nil
	}
	_, err := fmt.Fprintf(parsed.Stdout, "\nExamples:\n  weft %s\n", strings.ReplaceAll(examples[node.Path()], "\n", "\n  weft "))
	return err
}

// manual writes a page of section 1 for the program and for each command, from the parser.
func manual(root *kong.Node, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pages := []*kong.Node{root}
	for _, leaf := range root.Leaves(true) {
		pages = append(pages, leaf)
	}
	for _, node := range pages {
		if err := os.WriteFile(filepath.Join(dir, manName(node)+".1"), []byte(manPage(node)), 0o644); err != nil { //nolint:gosec // everybody may read manuals
			return err
		}
	}
	return nil
}

// manName returns the name of a command's page, such as weft-runs-list.
func manName(node *kong.Node) string {
	if node.Type == kong.ApplicationNode {
		return "weft"
	}
	return "weft-" + strings.ReplaceAll(node.Path(), " ", "-")
}

// manPage returns the page of a command in the man macros of troff.
func manPage(node *kong.Node) string {
	var out strings.Builder
	name := manName(node)
	fmt.Fprintf(&out, ".TH %s 1 \"\" Weft\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(name)), roff(name), roff(strings.TrimSuffix(node.Help, ".")))
	fmt.Fprintf(&out, ".SH SYNOPSIS\n.B weft\n%s\n", roff(strings.TrimPrefix(strings.TrimPrefix(node.Summary(), "weft"), " ")))
	if node.Detail != "" {
		fmt.Fprintf(&out, ".SH DESCRIPTION\n%s\n", roff(node.Detail))
	}
	section := func(title string) { fmt.Fprintf(&out, ".SH %s\n", title) }
	entry := func(term, text string) { fmt.Fprintf(&out, ".TP\n.B %s\n%s\n", roff(term), roff(text)) }
	if node.Type == kong.ApplicationNode {
		section("COMMANDS")
		for _, leaf := range node.Leaves(true) {
			entry(manName(leaf)+"(1)", leaf.Help)
		}
		section("EXIT STATUS")
		for code, meaning := range meanings {
			entry(fmt.Sprint(code), meaning)
		}
	}
	if len(node.Positional) > 0 {
		section("ARGUMENTS")
	}
	for _, one := range node.Positional {
		entry(one.Summary(), one.Help)
	}
	section("OPTIONS")
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			entry(flag.String(), flag.Help)
		}
	}
	if text := examples[node.Path()]; text != "" {
		section("EXAMPLES")
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(&out, ".PP\n%s\n", roff("weft "+line))
		}
	}
	return out.String()
}

// control matches the characters that start a request of troff at the start of a line.
var control = regexp.MustCompile(`(?m)^[.']`)

// roff escapes text for troff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "…", "...").Replace(strings.TrimSpace(text))
	return control.ReplaceAllString(text, `\&$0`)
}
