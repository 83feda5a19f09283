// Package cli is the command weft: it parses flags, and has one file for each command.
//
// All other code is in other packages. Invariant: Results are written to stdout by session.print, and
// everything else to stderr. exit.go has the exit codes.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"github.com/itchyny/gojq"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/audit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/program/app"
)

// commands is the grammar: a line for each command. The command's type has the flags and a Run
// method.
type commands struct {
	Look look `embed:"" group:"Flags of every command:"`

	Dev     devCommand     `cmd:"" help:"Run a whole Weft on a private PostgreSQL, for development."`
	Serve   serveCommand   `cmd:"" help:"Run the API (any number of processes)."`
	Work    workCommand    `cmd:"" help:"Run the workers (any number of processes)."`
	Migrate migrateCommand `cmd:"" help:"Bring the database to this binary's schema."`
	Config  configCommand  `cmd:"" help:"Show and check the settings of serve and work."`

	Call       callCommand       `cmd:"" help:"Run a component and print its output."`
	Run        workflowsRun      `cmd:"" help:"Start a run of a workflow."`
	Components componentsCommand `cmd:"" help:"List, search and describe the components."`

	Executions executionsCommand `cmd:"" help:"List, print, watch and cancel executions of components, and send their callbacks again."`

	Runs      runsCommand      `cmd:"" help:"List, print, watch, signal, cancel and repeat runs of workflows, and send their callbacks again."`
	Workflows workflowsCommand `cmd:"" help:"List workflows, and save workflows in files."`

	Schedules schedulesCommand `cmd:"" help:"Manage schedules, which start runs of workflows at set times."`
	Hooks     hooksCommand     `cmd:"" help:"Manage hooks, which start runs of workflows when other services send deliveries."`

	Open    openCommand    `cmd:"" help:"Open the console in the browser: all runs of the workspace, or one run."`
	Profile profileCommand `cmd:"" help:"Manage profiles, which are named credentials."`
	Whoami  whoamiCommand  `cmd:"" help:"Print the workspace and the key of your credentials."`
	Credits creditsCommand `cmd:"" help:"Print the credits of the workspace."`
	Usage   usageCommand   `cmd:"" help:"Print the credits and the storage that the workspace uses."`
	Limits  limitsCommand  `cmd:"" help:"Print the rate limits, and what is left of each."`
	API     apiCommand     `cmd:"" name:"api" help:"Send a signed request to the API."`

	Env envCommand `cmd:"" help:"Manage the environment variables that workflows use."`

	Listen listenCommand `cmd:"" help:"Receive callbacks on this machine: show, check, reject or forward them."`

	Proxy proxyCommand `cmd:"" help:"Run a local proxy that signs the requests that it forwards."`
	Keys  keysCommand  `cmd:"" help:"Create, list, rotate and revoke API keys (directly in the service's database)."`
	Admin adminCommand `cmd:"" help:"Make owners, set passwords, grant credits and set plans (directly in the service's database)."`
	Audit auditCommand `cmd:"" help:"Check that the credits of each account match its postings and its usage."`

	Backup     backupCommand     `cmd:"" help:"Back up the database into a folder, by pg_dump."`
	Restore    restoreCommand    `cmd:"" help:"Restore a backup into an empty database, which is then in quarantine."`
	Quarantine quarantineCommand `cmd:"" help:"Put a database in quarantine, for example after a restore, or release it."`

	Conform conformCommand `cmd:"" help:"Test a deployment against the contract, and report the results by part."`

	Doctor doctorCommand `cmd:"" help:"Check your setup and suggest fixes."`

	Help       helpCommand       `cmd:"" help:"Print the help of a command, or the exit codes."`
	Completion completionCommand `cmd:"" help:"Print a script for shell completion of commands, flags, components and their fields."`
	Complete   completeCommand   `cmd:"" name:"complete-words" hidden:""`

	Version     versionCommand   `cmd:"" help:"Print the version."`
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

// session is the environment of a command: the context, which Ctrl-C cancels, the streams and the
// environment variables.
type session struct {
	look
	query          *gojq.Code // of --jq
	command        *kong.Node
	ctx            context.Context
	program        string
	environ        []string          // with the settings of --config
	files          map[string]string // the file of each setting that a file sets
	badFiles       error             // faults in those files
	stdin          io.Reader
	stdout, stderr io.Writer
}

// getenv returns the value of an environment variable, or "" if it is not set.
func (s *session) getenv(name string) string {
	for _, entry := range s.environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// dataDir returns the default data folder of weft dev.
func (s *session) dataDir() string { return cmp.Or(s.getenv("WEFT_DATA_DIR"), ".weft") }

// devCredentials returns the credentials file of weft dev.
func (s *session) devCredentials() string { return filepath.Join(s.dataDir(), app.CredentialsFile) }

// note prints a message that is not part of the result, unless --quiet is set.
func (s *session) note(format string, args ...any) {
	if !s.Quiet {
		s.complain(format, args...)
	}
}

// complain prints an error.
func (s *session) complain(format string, args ...any) {
	_, _ = fmt.Fprintf(s.stderr, format+"\n", args...)
}

// progress returns where progress is written.
func (s *session) progress() io.Writer {
	if s.Quiet {
		return io.Discard
	}
	return s.stderr
}

// counted formats a number: singular, or plural with the number as %d.
func counted(n int, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return fmt.Sprintf(plural, n)
}

// Process describes the process that Run runs in.
type Process struct {
	Program        string   // as the user called it
	Args           []string // without the program's name
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// readID parses an argument that is an ID.
func readID(ctx *kong.DecodeContext, into reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("id", &text); err != nil {
		return err
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return fmt.Errorf("%q is not a valid ID; expected a UUID such as 01a2008b-1ca7-71e9-9654-0113709b637e", text)
	}
	into.Set(reflect.ValueOf(id))
	return nil
}

// readText parses text. Of a flag or an argument with an enum, it accepts the values in any case.
func readText(ctx *kong.DecodeContext, into reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("string", &text); err != nil {
		return err
	}
	if ctx.Value.Enum != "" {
		all := ctx.Value.EnumSlice()
		at := slices.IndexFunc(all, func(one string) bool { return strings.EqualFold(one, text) })
		if at < 0 {
			return fmt.Errorf("use one of %s, got %s", strings.TrimPrefix(strings.Join(all, ", "), ", "), printable(text))
		}
		text = all[at]
	}
	into.SetString(text)
	return nil
}

// synonyms are words of other programs for our commands.
var synonyms = map[string][]string{
	"ls": {"list"}, "view": {"get"}, "show": {"get"}, "describe": {"get"}, "new": {"create"}, "edit": {"update"},
	"rm": {"delete", "remove", "unset"}, "remove": {"delete", "unset"}, "delete": {"remove", "unset", "revoke"},
}

// understood returns the arguments with synonyms of commands, and groups in the singular, replaced by the
// names of the commands.
func understood(node *kong.Node, args []string) []string {
	args = slices.Clone(args)
	for i, word := range args {
		var next *kong.Node
		for _, name := range append([]string{word, word + "s"}, synonyms[word]...) {
			at := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == name })
			if next == nil && at >= 0 {
				next = node.Children[at]
			}
		}
		if next == nil {
			break
		}
		node, args[i] = next, next.Name
	}
	return args
}

// exit stops the parsing after --help and the like.
type exit int

// readDuration parses a duration.
func readDuration(ctx *kong.DecodeContext, into reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	took, err := parseDuration(text)
	into.SetInt(int64(took))
	return err
}

// parseDuration parses a duration. A number without a unit is in seconds, and a day has 24 hours.
func parseDuration(text string) (time.Duration, error) {
	word := text
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		word += "s"
	}
	if days, err := strconv.ParseUint(strings.TrimSuffix(text, "d"), 10, 16); err == nil && strings.HasSuffix(text, "d") {
		word = fmt.Sprintf("%dh", 24*days)
	}
	took, err := time.ParseDuration(word)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 15s, 2h or 7d", text)
	}
	return took, nil
}

// negative matches a negative number, which the parser takes for a flag.
var negative = regexp.MustCompile(`^-[0-9.]+$`)

// Run runs the command of the arguments and returns the exit code.
func Run(ctx context.Context, p Process) (code int) {
	ctx = audit.By(ctx, audit.Actor{Kind: audit.Operator})
	s := &session{ctx: ctx, program: p.Program, environ: p.Environ, stdin: p.Stdin, stdout: p.Stdout, stderr: p.Stderr}
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case exit:
			code = int(cause)
		default:
			panic(cause)
		}
	}()
	var all commands
	parser, err := newParser(s, &all)
	if err != nil {
		s.complain("weft: %v", err)
		return exitUsage
	}
	p.Args = understood(parser.Model.Node, p.Args)
	command, err := parser.Parse(p.Args)
	if err == nil && s.readSettings(command) { // which change the defaults of flags
		all = commands{}
		if parser, err = newParser(s, &all); err == nil {
			command, err = parser.Parse(p.Args)
		}
	}
	if err != nil {
		return s.failParse(err, p.Args)
	}
	s.look, s.command = all.Look, command.Selected()
	if s.query, err = s.compile(); err == nil {
		err = s.run(command)
	}
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errQuiet) {
		s.complain("weft: %s", plain(err))
		s.hintRuns(p.Args)
	}
	return exitCode(err)
}

// run runs the command. Its Run method gets what it has parameters for: the session, a caller, or the pool
// of a database. Only weft config check runs with faults in the files of --config.
func (s *session) run(command *kong.Context) error {
	if s.badFiles != nil && s.command.Target.Type() != reflect.TypeFor[configCheck]() {
		return coded{s.badFiles, exitUsage}
	}
	target, done := s.command.Target.Addr().Interface(), func() {}
	defer func() { done() }()
	service := sync.OnceValues(func() (caller, error) {
		return target.(interface {
			caller(s *session) (caller, error)
		}).caller(s)
	})
	database := func() (*pgxpool.Pool, error) {
		pool, stop, err := target.(interface {
			open(ctx context.Context) (*pgxpool.Pool, func(), error)
		}).open(s.ctx)
		if err == nil {
			done = stop
		}
		return pool, err
	}
	if named, ok := target.(interface{ resolve(s caller) error }); ok { // arguments that are names
		weft, err := service()
		if err == nil {
			err = named.resolve(weft)
		}
		if err != nil {
			return err
		}
	}
	if err := errors.Join(command.BindToProvider(service), command.BindToProvider(database)); err != nil {
		return err
	}
	return command.Run(s)
}

// plain returns the text of an error without its code.
func plain(err error) string {
	if refused, ok := errors.AsType[*fault.Error](err); ok {
		return strings.Replace(err.Error(), string(refused.Code)+": ", "", 1)
	}
	return err.Error()
}

func newParser(s *session, all *commands) (*kong.Kong, error) {
	addr, opsAddr := "127.0.0.1:8080", "127.0.0.1:9090"
	if s.getenv("DATABASE_URL") != "" { // used by serve, not by dev
		addr, opsAddr = cmp.Or(s.getenv("WEFT_ADDR"), addr), cmp.Or(s.getenv("WEFT_OPS_ADDR"), opsAddr)
	}
	parser, err := kong.New(all,
		kong.Name("weft"),
		kong.Description("Runs components and workflows, durably."),
		kong.Writers(s.stdout, s.stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(printHelp),
		kong.KindMapper(reflect.String, kong.MapperFunc(readText)),
		kong.TypeMapper(reflect.TypeFor[uuid.UUID](), kong.MapperFunc(readID)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(readDuration)),
		kong.Vars{
			"data_dir":     s.dataDir(),
			"credentials":  s.devCredentials(),
			"base_url":     s.getenv("WEFT_BASE_URL"),
			"database_url": s.getenv("DATABASE_URL"),
			"addr":         addr,
			"ops_addr":     opsAddr,
			"version":      app.Version,
		},
	)
	if err != nil {
		return nil, err
	}
	for _, leaf := range parser.Model.Leaves(false) {
		leaf.Detail = details[leaf.Path()]
	}
	return parser, nil
}
