package modules

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/component"
)

// formats lists the fuzz targets for string formats. If a module's schema has a format, the module
// must name one of the format's fuzz targets.
var formats = map[string][]string{
	"evm-address": {scalars}, "evm-hash": {scalars, "evm/answers_test.go:FuzzLogsAnswer"}, "evm-block": {scalars}, "evm-uint256": {scalars}, "evm-uint64": {scalars}, "hex-bytes": {scalars},
	"evm-private-key": {secrets}, "evm-public-key": {"evm/compute_address_test.go:FuzzPublicKeys"},
	"uri": {addresses}, "origin": {"../template/address_test.go:FuzzAddress"}, "value-path": {"apicall/path_test.go:FuzzPath"}, "uuid": {calls}, "date-time": {"logic/fuzz_test.go:FuzzDue"},
	"timestamp": {"utility/format_date_test.go:FuzzFormatDate"}, "time-zone": {"utility/format_date_test.go:FuzzFormatDate"}, "date-format": {"utility/format_date_test.go:FuzzFormatDate"},
	"re2": {"utility/regex_match_test.go:FuzzRegexMatch"}, "age-identity": {"utility/generate_age_encryption_test.go:FuzzParseIdentity"}, "age-recipient": {"utility/generate_age_encryption_test.go:FuzzParseIdentity"},
}

// Each module has tests with cases from independent sources and with invalid inputs, and fuzz
// targets if it decodes its input. The table lists these tests and fuzz targets, and each of
// them exists.
func TestEveryModuleHasIndependentTests(t *testing.T) {
	t.Parallel()
	for _, fault := range newJudge(t).judge(sources) {
		t.Error(fault)
	}
}

// The check detects every removed or wrong entry in the table.
func TestWrongTableOfSourcesIsDetected(t *testing.T) {
	t.Parallel()
	j := newJudge(t)
	for what, c := range map[string]struct {
		module, want string
		change       func(row *source)
	}{
		"a row that is gone":                   {"HASH", "HASH has no row", func(row *source) { row.module = "IF" }},
		"a row twice":                          {"HASH", "IF has 2 rows", func(row *source) { row.module = "IF" }},
		"a row of nothing":                     {"HASH", "there is no module HASHES", func(row *source) { row.module = "HASHES" }},
		"no golden cases":                      {"HASH", "HASH: no golden cases", func(row *source) { row.golden = nil }},
		"no source":                            {"HASH", "names no source", func(row *source) { row.golden = []golden{{test: row.golden[0].test}} }},
		"a source that the test does not name": {"HASH", "does not name the source FIPS 202", func(row *source) { row.golden = []golden{{test: row.golden[0].test, from: "FIPS 202"}} }},
		"a test that is not there": {"HASH", "has no TestHashMeets", func(row *source) {
			row.golden = []golden{{test: "utility/utility_test.go:TestHashMeets", from: "FIPS 180-4"}}
		}},
		"a test of another module": {"HASH", "has no case of HASH", func(row *source) {
			row.golden = []golden{{test: "utility/utility_test.go:TestRandomUUIDIsVersion4", from: "RFC 9562"}}
		}},
		"a file of tests that is not there": {"HASH", "no such file", func(row *source) { row.bad = "utility/hash_test.go:TestHash" }},
		"a file of cases that is not there": {"DELAY", "no such file", func(row *source) {
			row.golden = []golden{{row.golden[0].test, row.golden[0].from, "logic/testdata/none.json", "cases"}}
		}},
		"a file with cases of others only": {"FOR_EACH", "has no case of FOR_EACH", func(row *source) { row.golden = []golden{others("ajv 8.20.0")} }},
		"a list that is not there": {"COMPUTE_EVM_ADDRESS", "has no list addresses", func(row *source) {
			row.golden = []golden{computed("TestAddressesMatchOtherImplementations", "addresses")}
		}},
		"a file that names another version": {"DELAY", "does not name the source croner 10", func(row *source) { row.golden = []golden{others("croner 10")} }},
		"a file that the test does not read": {"DELAY", "does not read", func(row *source) {
			row.golden = []golden{{byExpr.test, "ethers 6.17.0", "evm/testdata/paths.json", "cases"}}
		}},
		"a method that nobody published":   {"GET_EVM_GAS_PRICE", "has no case of GET_EVM_GAS_PRICE", func(row *source) { row.golden = []golden{exchanged("eth_gasPrice")} }},
		"an interpreter that knows it not": {"WAIT_UNTIL", "has no case of WAIT_UNTIL", func(row *source) { row.golden = []golden{interpreted} }},
		"no bad input":                     {"HASH", "HASH: no test of bad inputs", func(row *source) { row.bad = "" }},
		"bad inputs of another module":     {"HASH", "has no case of HASH", func(row *source) { row.bad = asked }},
		"bad inputs of any module":         {"HASH", "is not enough", func(row *source) { row.bad = noObject }},
		"neither a target nor a reason":    {"HASH", "HASH: either fuzz targets", func(row *source) { row.fuzz = nil }},
		"a target and a reason":            {"HASH", "HASH: either fuzz targets", func(row *source) { row.plain = "it is simple" }},
		"a target that is not there":       {"HASH", "has no FuzzHash", func(row *source) { row.fuzz = []string{"utility/utility_test.go:FuzzHash"} }},
		"a target that is a test":          {"HASH", "is not a fuzz target", func(row *source) { row.fuzz = []string{row.bad} }},
		"a format that is not fuzzed":      {"API_CALL", "the format value-path", func(row *source) { row.fuzz = []string{addresses} }},
		"a format with a reason instead":   {"AGE_ENCRYPT", "the format age-recipient", func(row *source) { row.fuzz, row.plain = nil, "it is simple" }},
		"an answer that is not fuzzed":     {"GET_EVM_NONCE", "no target of what it is answered", func(row *source) { row.fuzz = []string{scalars, addresses} }},
	} {
		table := slices.Clone(sources)
		at := slices.IndexFunc(table, func(row source) bool { return row.module == c.module })
		c.change(&table[at])
		if faults := strings.Join(j.judge(table), "\n"); !strings.Contains(faults, c.want) {
			t.Errorf("%s: %q, want %q", what, faults, c.want)
		}
	}
}

// judge checks the table.
type judge struct {
	list  []component.Descriptor
	files map[string]*tests
}

func newJudge(t *testing.T) *judge {
	return &judge{list: registry(t).List(), files: map[string]*tests{}}
}

func (j *judge) judge(table []source) (faults []string) {
	rows := map[string]int{}
	for _, row := range table {
		rows[row.module]++
		at := slices.IndexFunc(j.list, func(d component.Descriptor) bool { return d.Module == row.module })
		if at < 0 {
			faults = append(faults, "there is no module "+row.module)
			continue
		}
		for _, err := range slices.Concat(j.cases(row), j.badInputs(row, j.list[at]), j.targets(row, j.list[at])) {
			faults = append(faults, fmt.Sprintf("%s: %v", row.module, err))
		}
	}
	for _, d := range j.list {
		switch n := rows[d.Module]; {
		case n == 0:
			faults = append(faults, d.Module+" has no row in sources_test.go: where are its golden cases from, which test has its bad inputs, which fuzz targets has it?")
		case n > 1:
			faults = append(faults, fmt.Sprintf("%s has %d rows", d.Module, n))
		}
	}
	return faults
}

// cases checks the golden cases of a row.
func (j *judge) cases(row source) (faults []error) {
	if len(row.golden) == 0 {
		return []error{fmt.Errorf("no golden cases")}
	}
	for _, g := range row.golden {
		file, function, err := j.find(g.test)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		holder := file.text
		switch {
		case g.file == "":
			if !names(function, row.module) {
				faults = append(faults, fmt.Errorf("%s has no case of %s", g.test, row.module))
			}
		default:
			if holder, err = j.holder(g, row.module, file); err != nil {
				faults = append(faults, err)
				continue
			}
		}
		for from := range strings.SplitSeq(g.from, "; ") {
			if from == "" {
				faults = append(faults, fmt.Errorf("%s names no source", g.test))
			} else if !strings.Contains(flowing(holder), from) {
				faults = append(faults, fmt.Errorf("%s%s does not name the source %s", g.file, g.test, from))
			}
		}
	}
	return faults
}

// holder returns the part of the file with the cases that names their source.
func (j *judge) holder(g golden, module string, test *tests) (string, error) {
	data, err := os.ReadFile(g.file)
	if err != nil {
		return "", err
	}
	folder, _, _ := strings.Cut(g.test, ":")
	if filepath.Ext(g.file) != ".go" && !reads(filepath.Dir(folder), filepath.Base(g.file)) {
		return "", fmt.Errorf("%s does not read %s", g.test, g.file)
	}
	text, found := string(data), false
	switch filepath.Ext(g.file) {
	case ".json":
		return provenance(data, g, module, test)
	case ".io": // a comment with the method precedes each exchange
		found = strings.Contains(text, "\n// "+g.at+"/") && names(test, module)
	case ".mjs": // a function for each kind of case
		found = strings.Contains(text, "\nfunction "+g.at+"(") && names(test, module)
	case ".go":
		found = strings.Contains(text, `case "`+module+`"`)
	}
	if !found {
		return "", fmt.Errorf("%s has no case of %s", g.file, module)
	}
	return text, nil
}

// provenance returns the part of a JSON file with cases that names their source.
func provenance(data []byte, g golden, module string, test *tests) (string, error) {
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		return "", fmt.Errorf("%s: %w", g.file, err)
	}
	list, ok := file[g.at].([]any)
	if !ok || len(list) == 0 {
		return "", fmt.Errorf("%s has no list %s", g.file, g.at)
	}
	if !slices.ContainsFunc(list, func(one any) bool {
		members, _ := one.(map[string]any)
		of, told := members["module"]
		return told && of == module || !told && names(test, module)
	}) {
		return "", fmt.Errorf("%s has no case of %s", g.file, module)
	}
	return fmt.Sprint(file["provenance"], " ", file["source"]), nil
}

// badInputs checks the test with invalid inputs of a row.
func (j *judge) badInputs(row source, d component.Descriptor) []error {
	if row.bad == "" {
		return []error{fmt.Errorf("no test of bad inputs")}
	}
	_, function, err := j.find(row.bad)
	switch {
	case err != nil:
		return []error{err}
	case row.bad == noObject && len(properties(d.Input))+len(properties(d.Config)) > 0:
		return []error{fmt.Errorf("%s is not enough: it has fields", row.bad)}
	case row.bad != noObject && !names(function, row.module):
		return []error{fmt.Errorf("%s has no case of %s", row.bad, row.module)}
	}
	return nil
}

// targets checks the fuzz targets of a row.
func (j *judge) targets(row source, d component.Descriptor) (faults []error) {
	if (len(row.fuzz) == 0) == (row.plain == "") {
		faults = append(faults, fmt.Errorf("either fuzz targets or a reason for having no fuzz targets"))
	}
	for _, target := range row.fuzz {
		switch file, function, err := j.find(target); {
		case err != nil:
			faults = append(faults, err)
		case !strings.HasPrefix(function.name, "Fuzz") || !strings.Contains(function.text, "(f *testing.F)") || !strings.Contains(file.text, ".Fuzz(func("):
			faults = append(faults, fmt.Errorf("%s is not a fuzz target", target))
		}
	}
	if d.Effect != component.EffectNone && !slices.ContainsFunc(row.fuzz, func(target string) bool { return target != scalars && target != addresses }) {
		faults = append(faults, fmt.Errorf("no target of what it is answered"))
	}
	for _, format := range append(formatsOf(d.Input), formatsOf(d.Config)...) {
		if !slices.ContainsFunc(row.fuzz, func(target string) bool { return slices.Contains(formats[format], target) }) {
			faults = append(faults, fmt.Errorf("the format %s is fuzzed by %v, and none of them is named", format, formats[format]))
		}
	}
	return faults
}
