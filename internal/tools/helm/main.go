// Command helm renders a chart as `helm template` does, and decodes each object into the type that
// Kubernetes has for it. It fails for an unknown field, a wrong type or an unknown kind.
//
//	go run . CHART NAME=VALUE...
//
// It is a separate module, because Helm and the types of Kubernetes have many dependencies.
package main

import (
	"fmt"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := render(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(path string, settings []string) error {
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	if err := chart.Validate(); err != nil {
		return err
	}
	values, err := strvals.Parse(strings.Join(settings, ","))
	if err != nil {
		return err
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "weft", Namespace: "default", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := (&engine.Engine{Strict: true}).Render(chart, all)
	if err != nil {
		return err
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".tpl") {
			continue
		}
		for _, document := range releaseutil.SplitManifests(text) {
			if err := check(document); err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, document)
			}
		}
	}
	return nil
}

// check decodes one object and prints it.
func check(document string) error {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(document), &head); err != nil {
		return err
	}
	types := map[string]any{
		"apps/v1 Deployment": &apps.Deployment{}, "batch/v1 Job": &batch.Job{}, "v1 Service": &core.Service{},
	}
	object, ok := types[head.APIVersion+" "+head.Kind]
	if !ok {
		return fmt.Errorf("unknown kind %q of %q", head.Kind, head.APIVersion)
	}
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		return err
	}
	text, err := yaml.Marshal(object)
	fmt.Printf("---\n%s", text)
	return err
}
