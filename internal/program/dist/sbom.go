package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"strings"
)

// bom is a software bill of materials in the format CycloneDX 1.6. It has neither a serial number nor
// a time, both of which are optional, because they differ between builds.
type bom struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Component part `json:"component"`
	} `json:"metadata"`
	Components []part `json:"components"`
}

// part is a program or a module.
type part struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

func module(kind, path, version string) part {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return part{Type: kind, Ref: url, Name: path, Version: version, PURL: url}
}

// sbom writes the list of modules that the linker recorded in the binary.
func (r release) sbom(b binary) error {
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return err
	}
	list := bom{Format: "CycloneDX", Spec: "1.6", Version: 1}
	list.Metadata.Component = module("application", info.Main.Path, r.version)
	list.Components = []part{module("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		list.Components = append(list.Components, module("library", dep.Path, dep.Version))
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("weft_%s_%s.cdx.json", r.version, b.platform()), append(text, '\n'))
}
