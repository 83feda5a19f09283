package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// scope is the owner of the npm packages. The package of users is SCOPE/weft. It depends on one
// package for each platform, of which npm installs only the one that fits.
const scope = "@weft-automation/"

// release numbers such as v1.2.3-4-gabcdef; everything else is a commit or a checksum.
var numbered = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+([-+].*)?)$`)

// number returns the version as npm and Debian accept it. Builds without a number sort below all
// releases.
func (r release) number() string {
	if parts := numbered.FindStringSubmatch(r.version); parts != nil {
		return parts[1]
	}
	return "0.0.0-g" + strings.NewReplacer("_", "-", "/", "-").Replace(r.version)
}

// nodeArch is Node's name of an architecture.
var nodeArch = map[string]string{"amd64": "x64", "arm64": "arm64"}

// manifest is a package.json.
type manifest struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	License     string            `json:"license"`
	Files       []string          `json:"files"`
	OS          []string          `json:"os,omitempty"`
	CPU         []string          `json:"cpu,omitempty"`
	Bin         map[string]string `json:"bin,omitempty"`
	Engines     map[string]string `json:"engines,omitempty"`
	Optional    map[string]string `json:"optionalDependencies,omitempty"`
}

func platformPackage(b binary) string {
	return "weft-" + b.system + "-" + nodeArch[b.arch]
}

func (r release) manifest(name string) manifest {
	return manifest{Name: scope + name, Version: r.number(), Description: "Durable workflow service on PostgreSQL", License: "Apache-2.0"}
}

// npmBinary writes the npm package with the binary of one platform.
func (r release) npmBinary(b binary) error {
	m := r.manifest(platformPackage(b))
	m.Description += fmt.Sprintf(": the binary for %s on %s", b.system, b.arch)
	m.Files, m.OS, m.CPU = []string{"weft"}, []string{b.system}, []string{nodeArch[b.arch]}
	return r.npm(platformPackage(b), m, packed{name: "weft", from: b.path, mode: 0o755})
}

// npmLauncher writes the npm package that users install.
func (r release) npmLauncher(binaries []binary) error {
	m := r.manifest("weft")
	m.Files, m.Bin = []string{"weft.js"}, map[string]string{"weft": "weft.js"}
	m.Engines = map[string]string{"node": ">=20"}
	m.Optional = map[string]string{}
	for _, b := range binaries {
		m.Optional[scope+platformPackage(b)] = r.number()
	}
	return r.npm("weft", m, packed{name: "weft.js", from: sources + "npm/weft.js", mode: 0o755})
}

// npm writes a package in the form that `npm pack` writes.
func (r release) npm(name string, m manifest, files ...packed) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	files = append(files,
		packed{name: "package.json", mode: 0o644, content: append(text, '\n')},
		packed{name: "LICENSE", from: "LICENSE", mode: 0o644})
	for i := range files {
		files[i].name = "package/" + files[i].name
	}
	return r.tarball(fmt.Sprintf("npm-%s-%s.tgz", name, r.number()), files)
}
