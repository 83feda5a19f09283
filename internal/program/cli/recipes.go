package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/weft-automation/weft/internal/local/workflowfile"
)

// workflowsNew writes a workflow file from a recipe. Without a recipe, it lists them.
type workflowsNew struct {
	File string `arg:"" optional:"" help:"YAML file to create. Default: stdout."`
	From string `placeholder:"RECIPE" help:"Recipe to start from. Without --from, the recipes are listed."`
}

func (c *workflowsNew) Run(s *session) error {
	all, err := workflowfile.Recipes()
	if err != nil {
		return err
	}
	if c.From == "" {
		if c.File != "" {
			return usage("set --from to a recipe. To list the recipes: weft workflows new")
		}
		return printAll(s, all, view{columns: "RECIPE=Name WHAT_IT_DOES=Summary"})
	}
	at := slices.IndexFunc(all, func(one workflowfile.Recipe) bool { return one.Name == c.From })
	if at < 0 {
		var names []string
		for _, one := range all {
			names = append(names, one.Name)
		}
		return usage("--from: unknown recipe %q. The recipes are %s", printable(c.From), strings.Join(names, ", "))
	}
	if c.File == "" {
		_, err := io.WriteString(s.stdout, all[at].Text)
		return err
	}
	file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // never replaces a file
	if err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	_, err = io.WriteString(file, all[at].Text)
	if err = errors.Join(err, file.Close()); err == nil {
		s.note("written to %s. Its comments say what to set. To run it: weft run %s", c.File, c.File)
	}
	return err
}
