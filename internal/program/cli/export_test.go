package cli

import "github.com/alecthomas/kong"

// Examples are the examples of each command.
var Examples = examples

// Parser returns the parser of all commands.
func Parser(p Process) (*kong.Kong, error) {
	return newParser(&session{environ: p.Environ, stdout: p.Stdout, stderr: p.Stderr}, &commands{})
}
