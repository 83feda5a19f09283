package main

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// rendered renders the chart with the functions of Helm that it uses.
func rendered(t *testing.T, image string) (string, error) {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, sources+"helm/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	values["image"], values["settings"] = image, map[string]any{"WEFT_WORKERS": 50}
	chart := template.New("chart")
	chart.Funcs(template.FuncMap{
		"list": func(all ...any) []any { return all },
		"dict": func(pairs ...any) map[string]any {
			all := map[string]any{}
			for pair := range slices.Chunk(pairs, 2) {
				all[pair[0].(string)] = pair[1]
			}
			return all
		},
		"include": func(name string, data any) (string, error) {
			var out bytes.Buffer
			err := chart.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"nindent": func(n int, text string) string {
			return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
		},
		"quote": func(value any) (string, error) {
			text, err := yaml.Marshal(value)
			return strconv.Quote(strings.TrimSpace(string(text))), err
		},
		"toYaml": func(value any) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSpace(string(text)), err
		},
		"required": func(text string, value any) (any, error) {
			if value == "" {
				return nil, errors.New(text)
			}
			return value, nil
		},
	})
	for _, name := range chartTemplates {
		template.Must(chart.New(name).Option("missingkey=error").Parse(read(t, sources+"helm/"+name)))
	}
	var all bytes.Buffer
	for _, name := range chartTemplates {
		all.WriteString("---\n")
		if err := chart.ExecuteTemplate(&all, name, map[string]any{"Values": values, "Release": map[string]string{"Name": "weft"}}); err != nil {
			return "", err
		}
	}
	return all.String(), nil
}

func TestChartRunsProcessesWithoutPrivileges(t *testing.T) {
	atRoot(t)
	if _, err := rendered(t, ""); err == nil || !strings.Contains(err.Error(), "image: set it") {
		t.Errorf("without an image: %v", err)
	}
	text, err := rendered(t, "weft:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object struct {
			Kind string
			Spec struct {
				Selector any
				Template struct {
					Spec struct {
						Containers []struct {
							Image           string
							Env             []struct{ Name, Value string }
							SecurityContext struct {
								ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
								Capabilities           struct{ Drop []string }
							} `yaml:"securityContext"`
						}
						SecurityContext struct {
							RunAsNonRoot bool `yaml:"runAsNonRoot"`
						} `yaml:"securityContext"`
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		kinds[object.Kind]++
		pod := object.Spec.Template.Spec
		if object.Kind == "Deployment" || object.Kind == "Job" {
			if len(pod.Containers) != 1 || !pod.SecurityContext.RunAsNonRoot {
				t.Fatalf("not one container of an own user: %s", document)
			}
			c := pod.Containers[0]
			if c.Image != "weft:v1.2.3" || !c.SecurityContext.ReadOnlyRootFilesystem || !slices.Contains(c.SecurityContext.Capabilities.Drop, "ALL") || !slices.Contains(c.Env, struct{ Name, Value string }{"WEFT_WORKERS", "50"}) {
				t.Errorf("image, security or settings are wrong: %s", document)
			}
		}
	}
	if kinds["Deployment"] != 2 || kinds["Job"] != 1 || kinds["Service"] != 1 {
		t.Errorf("the chart has %v:\n%s", kinds, text)
	}
}

// Helm's own engine renders the packed chart, and the objects have no field that Kubernetes does not know.
func TestChartFitsTheSchemasOfKubernetes(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/program/dist.TestChartRunsProcessesWithoutPrivileges") {
		return
	}
	atRoot(t)
	r := release{version: "v1.2.3", changed: time.Unix(1_000_000_000, 0).UTC(), out: t.TempDir()}
	if err := r.chart(); err != nil {
		t.Fatal(err)
	}
	packed := r.out + "/weft-1.2.3.tgz"
	out := must(t, "go", "run", "-C", "internal/tools/helm", ".", packed, "image=weft:v1.2.3", "settings.WEFT_WORKERS=50")
	if strings.Count(out, "\n---\n")+1 != 4 || !strings.Contains(out, `value: "50"`) {
		t.Errorf("rendered:\n%s", out)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-C", "internal/tools/helm", ".", packed)
	if text, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(text), "image: set it") {
		t.Errorf("without an image: %v: %s", err, text)
	}
}
