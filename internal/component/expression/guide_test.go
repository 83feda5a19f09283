package expression_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/weft-automation/weft/internal/component/expression"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// The guide has every function, and the result of each example is right.
func TestFunctionsOfTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../web/portal/guides/references.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(.+)` \\| `(.+)` \\|$").FindAllStringSubmatch(string(guide), -1) {
		documented = append(documented, row[1])
		program, err := expression.Compile(row[2])
		if err != nil {
			t.Errorf("%s: %v", row[2], err)
			continue
		}
		value, err := program.Run(nil)
		text, _ := strictjson.Encode(value)
		if err != nil || string(text) != row[3] {
			t.Errorf("%s is %s, %v; the guide says %s", row[2], text, err, row[3])
		}
	}
	if slices.Sort(documented); !slices.Equal(documented, expression.FunctionNames()) {
		t.Errorf("the guide has %v, want %v", documented, expression.FunctionNames())
	}
}
