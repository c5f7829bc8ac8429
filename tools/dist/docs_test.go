package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// standIns are programs that would change this machine, or need a cluster: in their place one runs that fails if a file
// that it is given does not exist. The tests of packages, of the image and, in compat/helm, of the charts run real ones.
var standIns = []string{"sudo", "skopeo", "podman", "helm"} //nolint:gochecknoglobals // a table

const standIn = `#!/bin/sh
for arg; do
	file=${arg#oci-archive:}
	case $file in
	*.deb | *.rpm | *.tar | *.tgz | *.gz) test -f "$file" || { echo "$0: there is no file $file" >&2; exit 1; } ;;
	esac
done
`

// TestTheCommandsOfTheInstallationAreTrue runs the commands of docs/install.md over the release, and looks for the
// output that the page shows behind # →.
func TestTheCommandsOfTheInstallationAreTrue(t *testing.T) {
	forLinux(t)
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		script.WriteString(strings.ReplaceAll(block[1], "amd64", runtime.GOARCH))
	}
	home, bin := t.TempDir(), t.TempDir()
	if err := os.CopyFS(filepath.Join(home, "dist"), os.DirFS(made.dir)); err != nil {
		t.Fatalf("copy the release: %v", err)
	}
	if _, err := output(t.Context(), ".", "go", "build", "-o", filepath.Join(bin, "krew"),
		"sigs.k8s.io/krew/cmd/krew"); err != nil {
		t.Fatalf("build krew: %v", err)
	}
	programs := map[string]string{"kubectl": "#!/bin/sh\nshift\nexec krew \"$@\"\n"}
	for _, name := range standIns {
		programs[name] = standIn
	}
	if _, err := exec.LookPath("man"); err != nil {
		programs["man"] = "#!/bin/sh\ncat \"$2\"\n"
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil { //nolint:gosec // it is run
			t.Fatalf("write a file: %v", err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script.String())
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KREW_ROOT="+home, "KREW_NO_UPGRADE_CHECK=1",
		"MANWIDTH=120", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	shown := regexp.MustCompile(`(?m)# → (.*)$`).FindAllStringSubmatch(script.String(), -1)
	if len(shown) < 3 {
		t.Errorf("docs/install.md shows the output of %d commands", len(shown))
	}
	for _, line := range shown {
		want := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line[1])), "…", ".*")
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("the commands do not print %q:\n%s", line[1], out)
		}
	}
	// Each file that the page names is one of the release.
	for _, match := range regexp.MustCompile("(?m)^\\| ([^|]+) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(match[1], -1) {
			pattern := strings.NewReplacer("VERSION", "*", "OS", "*", "ARCH", "*").Replace(name[1])
			if found, err := filepath.Glob(filepath.Join(made.dir, "*"+strings.TrimPrefix(pattern, "*"))); err != nil ||
				len(found) == 0 && name[1] != ".zip" {
				t.Errorf("the release has no %s", name[1])
			}
		}
	}
}
