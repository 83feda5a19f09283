package main

import (
	"bytes"
	"os"
)

// chartTemplates are the templates of the Helm chart.
var chartTemplates = []string{"templates/_pod.tpl", "templates/migrate.yaml", "templates/processes.yaml"}

// chart writes the Helm chart with the version of the release.
func (r release) chart() error {
	about, err := os.ReadFile(sources + "helm/Chart.yaml")
	if err != nil {
		return err
	}
	about = bytes.ReplaceAll(about, []byte("ersion: 0.0.0\n"), []byte("ersion: "+r.number()+"\n"))
	files := []packed{{name: "weft/Chart.yaml", content: about, mode: 0o644}}
	for _, name := range append([]string{"values.yaml"}, chartTemplates...) {
		files = append(files, packed{name: "weft/" + name, from: sources + "helm/" + name, mode: 0o644})
	}
	return r.tarball("weft-"+r.number()+".tgz", files)
}
