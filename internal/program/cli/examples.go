package cli

import (
	"fmt"
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

	"call": "call RANDOM_UUID\ncall HASH algorithm=keccak256 data=hello\ncall API_CALL apiUrl=https://example.com method=GET -o json",
	"run":  "run fanOut --watch\nworkflows new --from branch branch.yaml && weft run branch.yaml --input '{\"amount\": 200}'",

	"components list":   "components list\ncomponents list --category UTILITY --jq '.[].module'",
	"components search": "components search webhook",
	"components get":    "components get HASH",

	"executions list":            "executions list --module HASH --since 2h\nexecutions list --status FAILED --jq '.[].id'",
	"executions get":             "executions get --last\nexecutions get --last --jq .output",
	"executions watch":           "executions watch --last",
	"executions replay-callback": "executions replay-callback --last --force",

	"runs list":   "runs list --workflow fanOut --status FAILED --since 2h\nruns list --trigger SCHEDULE --since 2026-11-01 --until 7d\nruns list --all --jq '.[].id'",
	"runs get":    "runs get --last\nruns get --last --jq .output",
	"runs watch":  "runs watch --last",
	"runs signal": "runs signal --last approved --payload '{\"by\": \"ada\"}'",
	"runs cancel": "runs cancel --last --reason 'wrong amount'",
	"runs rerun":  "runs rerun --last --watch",

	"workflows list":    "workflows list\nworkflows list --status ARCHIVED",
	"workflows get":     "workflows get fanOut",
	"workflows new":     "workflows new\nworkflows new --from approval approval.yaml",
	"workflows push":    pushNightly,
	"workflows pull":    "workflows pull fanOut --out fanOut.yaml",
	"workflows diff":    "workflows pull fanOut --out fanOut.yaml && weft workflows diff fanOut.yaml",
	"workflows quote":   "workflows quote fanOut",
	"workflows pause":   "workflows pause fanOut",
	"workflows resume":  "workflows resume fanOut",
	"workflows archive": "workflows archive fanOut",

	"schedules list":   "schedules list\nschedules list --workflow fanOut",
	"schedules create": pushNightly + "\nschedules create 'Nightly fan-out' '0 9 * * MON-FRI' --time-zone Europe/Berlin --name weekdays",
	"schedules get":    "schedules get weekdays",
	"schedules update": "schedules update weekdays --cron '@hourly'",
	"schedules pause":  "schedules pause weekdays",
	"schedules resume": "schedules resume weekdays",
	"schedules delete": "schedules delete weekdays",

	"hooks list":   "hooks list",
	"hooks create": pushGitHub + "\nhooks create 'GitHub push' --name pushes --header X-Hub-Signature-256 --prefix sha256= < secret.txt",
	"hooks get":    "hooks get pushes",
	"hooks update": "hooks update pushes --header X-Hub-Signature-256 --prefix sha256= --delivery-header X-GitHub-Delivery",
	"hooks pause":  "hooks pause pushes",
	"hooks resume": "hooks resume pushes",
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
	"quarantine status":  "quarantine status --list",
	"quarantine begin":   "quarantine begin --reason 'restored from a backup'",
	"quarantine release": "quarantine release --fail-unsafe",

	"version":    "version",
	"help":       "help exit-codes\nhelp workflows push\nhelp --man man1",
	"completion": "completion bash",
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
