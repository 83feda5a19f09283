package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oasdiff/yaml3"
)

// atRoot makes the repository the current folder, as it is for make dist.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir(filepath.Join("..", "..", ".."))
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// statements returns the lines that are not comments.
func statements(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestVersionsSuitNpmAndDebian(t *testing.T) {
	for version, want := range map[string][2]string{
		"v1.2.3":                {"1.2.3", "1.2.3"},
		"1.2.3-rc.1":            {"1.2.3-rc.1", "1.2.3~rc.1"},
		"v0.1.0-3-gabc-dirty":   {"0.1.0-3-gabc-dirty", "0.1.0~3-gabc-dirty"},
		"0123456789ab":          {"0.0.0-g0123456789ab", "0.0.0~g0123456789ab"},
		"source-42":             {"0.0.0-gsource-42", "0.0.0~gsource-42"},
		"feature/a_branch-name": {"0.0.0-gfeature-a-branch-name", "0.0.0~gfeature-a-branch-name"},
	} {
		r := release{version: version}
		if got := [2]string{r.number(), r.debianVersion()}; got != want {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}

func TestArchiveHasTheManual(t *testing.T) {
	atRoot(t)
	r := release{version: "v1.2.3", out: t.TempDir(), man: t.TempDir()}
	for _, page := range []string{"weft.1", "weft-dev.1"} {
		if err := os.WriteFile(filepath.Join(r.man, page), []byte(".TH"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.archive(binary{system: "linux", arch: "amd64", path: "go.mod"}); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "tar", "-tzf", filepath.Join(r.out, "weft_v1.2.3_linux_amd64.tar.gz")).Output()
	const name = "weft_v1.2.3_linux_amd64/"
	if want := name + "weft\n" + name + "LICENSE\n" + name + "man1/weft-dev.1\n" + name + "man1/weft.1\n"; err != nil || string(out) != want {
		t.Errorf("the archive has %q (%v), want %q", out, err, want)
	}
}

// A small file stands in for the binary. The soak compares packages of the real one.
func TestPackagesOfOneBinaryAreReproducible(t *testing.T) {
	atRoot(t)
	var sums []string
	for range 2 {
		r := release{version: "v1.2.3", changed: time.Unix(1_000_000_000, 0).UTC(), out: t.TempDir()}
		b := binary{system: "linux", arch: "amd64", path: "go.mod"}
		for _, write := range []func(binary) error{r.archive, r.npmBinary} {
			if err := write(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.npmLauncher([]binary{b}); err != nil {
			t.Fatal(err)
		}
		if err := r.checksums(); err != nil {
			t.Fatal(err)
		}
		check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
		check.Dir = r.out
		if out, err := check.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		sums = append(sums, read(t, filepath.Join(r.out, "SHA256SUMS")))
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 3 {
		t.Errorf("first:\n%ssecond:\n%s", sums[0], sums[1])
	}
}

// The program of a test records its Go release, but no modules. The soak checks those.
func TestBillOfMaterialsIsRepeatable(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var lists []string
	for range 2 {
		r := release{version: "v1.2.3", out: t.TempDir()}
		if err := r.sbom(binary{system: "linux", arch: "amd64", path: program}); err != nil {
			t.Fatal(err)
		}
		lists = append(lists, read(t, filepath.Join(r.out, "weft_v1.2.3_linux_amd64.cdx.json")))
	}
	if lists[0] != lists[1] || !strings.Contains(lists[0], `"pkg:golang/stdlib@`) || !strings.Contains(lists[0], `"pkg:golang/github.com/weft-automation/weft@v1.2.3"`) {
		t.Errorf("first: %s\nsecond: %s", lists[0], lists[1])
	}
}

func TestUnitsRunAsTheirUserWithoutPrivileges(t *testing.T) {
	atRoot(t)
	for _, command := range []string{"serve", "work", "migrate"} {
		lines := statements(read(t, sources+"debian/weft-"+command+".service"))
		for _, line := range []string{
			"User=weft", "ExecStart=/usr/bin/weft " + command, "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=",
			"EnvironmentFile=/etc/weft/weft.env", "EnvironmentFile=/etc/weft/master-key.env", "SystemCallFilter=@system-service",
		} {
			if !slices.Contains(lines, line) {
				t.Errorf("weft-%s.service lacks %s", command, line)
			}
		}
		if installs := slices.Contains(lines, "[Install]"); installs == (command == "migrate") {
			t.Errorf("weft-%s.service can be enabled: %t", command, installs)
		}
	}
}

func TestPackageScriptsNeitherMigrateNorDelete(t *testing.T) {
	atRoot(t)
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		path := sources + "debian/" + name
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		for _, line := range statements(read(t, path)) {
			for _, word := range []string{"migrate", "rm ", "dropdb", "psql", "userdel", "restart"} {
				if strings.Contains(line, word) {
					t.Errorf("%s runs %s", name, line)
				}
			}
		}
	}
}

func TestDebianPackageNamesFilesThatExist(t *testing.T) {
	atRoot(t)
	var config struct {
		Contents []struct{ Src, Dst, Type string }
		Scripts  map[string]string
	}
	if err := yaml.Unmarshal([]byte(read(t, sources+"debian/nfpm.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, content := range config.Contents {
		if content.Src != "" && !strings.HasPrefix(content.Src, "${WEFT_") {
			files = append(files, content.Src)
		}
		if content.Dst == "/etc/weft/weft.env" && content.Type != "config|noreplace" {
			t.Errorf("an upgrade replaces %s", content.Dst)
		}
		// dpkg deletes files that it installed.
		if strings.Contains(content.Dst, "master-key") {
			t.Errorf("the package contains %s", content.Dst)
		}
	}
	for _, script := range config.Scripts {
		files = append(files, script)
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if len(files) < 8 {
		t.Errorf("found only %v", files)
	}
}

// pinned reports whether an image has a full version rather than a moving name.
func pinned(image string) bool {
	_, tag, _ := strings.Cut(image, ":")
	return strings.Count(tag, ".") >= 1 && tag != "latest"
}

func TestContainerImageIsPinnedAndRunsAsItsUser(t *testing.T) {
	atRoot(t)
	var user, health, client bool
	for _, line := range statements(read(t, sources+"container/Containerfile")) {
		if image, ok := strings.CutPrefix(line, "FROM "); ok && !pinned(strings.Fields(image)[0]) {
			t.Errorf("%s is not pinned", line)
		}
		user = user || line == "USER 65532:65532"
		health = health || strings.HasPrefix(line, "HEALTHCHECK ") && strings.Contains(line, "/healthz")
		client = client || strings.HasSuffix(line, " postgresql18-client") // of the newest supported version: it reads older servers too
	}
	if !user || !health || !client {
		t.Errorf("user set: %t, health check: %t, PostgreSQL's client: %t", user, health, client)
	}
}

func TestComposeServicesAreReadOnlyAndUnprivileged(t *testing.T) {
	atRoot(t)
	var compose struct {
		Services map[string]struct {
			Image, User string
			ReadOnly    bool `yaml:"read_only"`
			Ports       []string
			CapDrop     []string `yaml:"cap_drop"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, sources+"container/compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "migrate", "serve", "work"} {
		service := compose.Services[name]
		own := strings.HasPrefix(service.Image, "${WEFT_IMAGE")
		if service.User == "" || !own && !pinned(service.Image) {
			t.Errorf("%s: user %q, image %q", name, service.User, service.Image)
		}
		if own && (!service.ReadOnly || !slices.Contains(service.CapDrop, "ALL")) {
			t.Errorf("%s has a writable root file system or capabilities", name)
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s listens on all addresses: %s", name, port)
			}
		}
	}
}

func TestLauncherOfNpmParses(t *testing.T) {
	atRoot(t)
	if out, err := exec.CommandContext(t.Context(), "node", "--check", sources+"npm/weft.js").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The examples that weft dev prints start with the name by which the launcher starts it. Node stands
// in for the binary, because it can print that name.
func TestLauncherOfNpmStartsWeftByTheNameThatUsersType(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	platform := filepath.Join(dir, "node_modules", filepath.FromSlash(scope+platformPackage(binary{system: runtime.GOOS, arch: runtime.GOARCH})))
	if err := errors.Join(
		os.MkdirAll(platform, 0o755),
		os.Symlink(node, filepath.Join(platform, "weft")),
		os.WriteFile(filepath.Join(dir, "weft.js"), []byte(read(t, "npm/weft.js")), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{"exec": "npx weft", "": "weft"} {
		cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "weft.js"), "-p", "process.argv0")
		cmd.Env = append(os.Environ(), "npm_command="+command)
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("npm_command=%q: started as %s (%v), want %s", command, out, err, want)
		}
	}
}
