package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// examples has the lines of the Examples section of each command, without the program's name.
var examples = map[string]string{
	"dev":     "dev\ndev --allow-network 127.0.0.0/8 --callback-schedule 0s,1s,5s\ndev --addr 0.0.0.0:8080 --expose",
	"serve":   "serve --addr 0.0.0.0:8080",
	"work":    "work --ops-addr 127.0.0.1:9091",
	"migrate": "migrate --database-url postgres://weft@db/weft",

	"config show":  "config show\nconfig show --config /etc/weft/weft.env -o json",
	"config check": "config check --config /etc/weft/weft.env",

	"call":       "call RANDOM_UUID\ncall HASH algorithm=keccak256 data=hello\ncall API_CALL apiUrl=https://example.com method=GET -o json",
	"run":        "run fanOut --watch\nrun hello.yaml --input '{\"n\": 21}'",
	"components": "components\ncomponents HASH\ncomponents --category UTILITY --jq '.[].module'",

	"executions list":            "executions list\nexecutions list --jq '.[].id'",
	"executions get":             "executions get 019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e -o json",
	"executions watch":           "executions watch 019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e",
	"executions replay-callback": "executions replay-callback 019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e",

	"runs list":   "runs list --workflow fanOut --status FAILED\nruns list --all --jq '.[].id'",
	"runs get":    "runs get --last -o json",
	"runs watch":  "runs watch --last",
	"runs signal": "runs signal --last approved --payload '{\"by\": \"ada\"}'",
	"runs cancel": "runs cancel --last --reason 'wrong amount'",
	"runs rerun":  "runs rerun --last --watch",

	"workflows list":    "workflows list\nworkflows list --status ARCHIVED",
	"workflows get":     "workflows get fanOut",
	"workflows new":     "workflows new\nworkflows new --from approval approval.yaml",
	"workflows push":    "workflows push hello.yaml\nworkflows push hello.yaml fanOut --at 3",
	"workflows pull":    "workflows pull fanOut --out fanOut.yaml",
	"workflows diff":    "workflows diff fanOut.yaml",
	"workflows quote":   "workflows quote fanOut",
	"workflows pause":   "workflows pause fanOut",
	"workflows resume":  "workflows resume fanOut",
	"workflows archive": "workflows archive fanOut",

	"schedules list":   "schedules list --workflow fanOut",
	"schedules get":    "schedules get 019aa5f3-1c2d-7e3f-8a4b-5c6d7e8f9a0b",
	"schedules create": "schedules create fanOut '@daily'\nschedules create fanOut '0 9 * * MON-FRI' --time-zone Europe/Berlin",
	"schedules update": "schedules update 019aa5f3-1c2d-7e3f-8a4b-5c6d7e8f9a0b --cron '@hourly'",
	"schedules pause":  "schedules pause 019aa5f3-1c2d-7e3f-8a4b-5c6d7e8f9a0b",
	"schedules resume": "schedules resume 019aa5f3-1c2d-7e3f-8a4b-5c6d7e8f9a0b",
	"schedules delete": "schedules delete 019aa5f3-1c2d-7e3f-8a4b-5c6d7e8f9a0b",

	"hooks list":   "hooks list",
	"hooks get":    "hooks get 019aa5f3-2c3d-7e4f-9051-6c7d8e9fa0b1",
	"hooks create": "hooks create fanOut --header X-Hub-Signature-256 --prefix sha256= < secret.txt",
	"hooks update": "hooks update 019aa5f3-2c3d-7e4f-9051-6c7d8e9fa0b1 --name 'Shop orders'",
	"hooks pause":  "hooks pause 019aa5f3-2c3d-7e4f-9051-6c7d8e9fa0b1",
	"hooks resume": "hooks resume 019aa5f3-2c3d-7e4f-9051-6c7d8e9fa0b1",
	"hooks delete": "hooks delete 019aa5f3-2c3d-7e4f-9051-6c7d8e9fa0b1",

	"env list":  "env list",
	"env get":   "env get API_URL",
	"env set":   "env set API_URL https://example.com\nenv set API_TOKEN --secret < token.txt",
	"env unset": "env unset API_URL",

	"profile list":   "profile list",
	"profile show":   "profile show\nprofile show prod",
	"profile add":    "profile add dev .weft/credentials.json\nprofile add prod key.json --base-url https://weft.example.com",
	"profile use":    "profile use prod",
	"profile remove": "profile remove prod",

	"open":    "open\nopen --print",
	"whoami":  "whoami",
	"credits": "credits\ncredits --jq .availableCredits",
	"usage":   "usage",
	"limits":  "limits",
	"api":     "api GET '/v1/sdk/workflows?limit=1'\napi POST /v1/sdk/components --body '{\"module\": \"RANDOM_UUID\"}'",

	"listen":  "listen\nlisten --once --timeout 30s --body",
	"proxy":   "proxy\nproxy --allow 'GET /v1/sdk'",
	"conform": "conform --parts\nconform --only 5.3 --guests",
	"doctor":  "doctor",

	"keys create":        "keys create --label ci --out ci.json",
	"keys list":          "keys list",
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
