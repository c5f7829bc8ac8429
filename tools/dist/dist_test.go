package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The tests share a release of this machine's platform and the moment at which it was made.
var made struct { //nolint:gochecknoglobals // it takes a minute of processor time
	dir, sums string
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "gapless-dist-test-")
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }() // it is only temporary
		var sums bytes.Buffer
		made.dir = filepath.Join(dir, "dist")
		if err := run(context.Background(), []string{"-out", made.dir, "-platforms", platform()}, &sums); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return 1
		}
		made.sums = sums.String()
		return m.Run()
	}())
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// one returns the one file of the release that a pattern names.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(made.dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d files are called %s, %v, in\n%s", len(found), pattern, err, made.sums)
	}
	return found[0]
}

// forLinux skips a test of what is made for Linux only.
func forLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("it is made for Linux")
	}
}

// unpack writes the files of a tar below a directory, and returns their headers by name.
func unpack(t *testing.T, from io.Reader, to string) map[string]*tar.Header {
	t.Helper()
	all := map[string]*tar.Header{}
	archive := tar.NewReader(from)
	for {
		h, err := archive.Next()
		if err == io.EOF { //nolint:errorlint // it is io.EOF itself
			return all
		}
		if err != nil {
			t.Fatalf("read an archive: %v", err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		all[name] = h
		path := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var text []byte
			if text, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, text, os.FileMode(h.Mode).Perm())
			}
		}
		if err != nil {
			t.Fatalf("unpack %s: %v", name, err)
		}
	}
}

// unpacked unpacks an archive of the release.
func unpacked(t *testing.T, pattern string) (dir string, files map[string]*tar.Header) {
	t.Helper()
	file, err := os.Open(one(t, pattern))
	if err != nil {
		t.Fatalf("open a file: %v", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	from, err := gzip.NewReader(file)
	if err != nil {
		t.Fatalf("read an archive: %v", err)
	}
	dir = t.TempDir()
	return dir, unpack(t, from, dir)
}

func TestTheSameCommitGivesTheSameBytes(t *testing.T) {
	var again bytes.Buffer
	dir := filepath.Join(t.TempDir(), "again")
	if err := run(t.Context(), []string{"-out", dir, "-platforms", platform()}, &again); err != nil {
		t.Fatalf("make a release: %v", err)
	}
	if again.String() != made.sums {
		t.Errorf("the second time the sums are\n%s\nthe first time they were\n%s", &again, made.sums)
	}
	for line := range strings.Lines(made.sums) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got, err := sumOf(filepath.Join(made.dir, name)); err != nil || got != want {
			t.Errorf("%s has the sum %s, %v, and not %s", name, got, err, want)
		}
	}
}

func TestOnlyFilesOfAFormerReleaseAreRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if err := prepare(dir); err == nil || !strings.Contains(err.Error(), "no directory of a former release") {
		t.Errorf("a directory with another file: %v", err)
	}
}

func TestTheProgramOfTheArchiveSaysItsVersionCommitAndDate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the archive is a zip")
	}
	dir, files := unpacked(t, "gapless_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	for _, want := range []string{
		"LICENSE", "NOTICE", "README.md", "gapless", "man/man1/gapless.1", "man/man1/gapless-serve.1",
		"man/man1/gapless-relay-manifests.1", "completions/gapless.bash", "completions/gapless.fish",
		"completions/gapless.powershell", "completions/gapless.zsh",
	} {
		if files[want] == nil {
			t.Errorf("the archive has no %s", want)
		}
	}
	hash, err := output(t.Context(), ".", "git", "log", "-1", "--format=%h of", "--abbrev=12")
	if err != nil {
		t.Fatalf("ask for the commit: %v", err)
	}
	out, err := output(t.Context(), dir, filepath.Join(dir, "gapless"), "version")
	if err != nil {
		t.Fatalf("run the program: %v", err)
	}
	name := filepath.Base(one(t, "gapless_*.tar.gz"))
	version := strings.Split(name, "_")[1]
	for _, want := range []string{
		strings.ReplaceAll(version, "+", "."), "commit " + strings.TrimSpace(string(hash)), "Z, go", platform(),
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the program says %s, without %q", out, want)
		}
	}
}

func TestTheManualIsReadableAndHasEachFlag(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the archive is a zip")
	}
	dir, files := unpacked(t, "gapless_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	page, err := os.ReadFile(filepath.Join(dir, "man", "man1", "gapless-serve.1"))
	if err != nil {
		t.Fatalf("read a page: %v", err)
	}
	for _, want := range []string{
		".TH \"GAPLESS-SERVE\" \"1\"", "data-dir", "etcd-servers", "gapless-data", "SEE ALSO", "EXAMPLE",
	} {
		if !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), want) {
			t.Errorf("the page of serve has no %s", want)
		}
	}
	program, err := exec.LookPath("man")
	if err != nil {
		t.Log("man is not installed: only the text was checked")
		return
	}
	for name := range files {
		if !strings.HasSuffix(name, ".1") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), program, "--warnings=w", "-l", filepath.Join(dir, name))
		cmd.Env = append(os.Environ(), "MANWIDTH=120", "LC_ALL=C.UTF-8")
		var problems bytes.Buffer
		cmd.Stderr = &problems
		if out, err := cmd.Output(); err != nil || problems.Len() > 0 || len(out) < 100 {
			t.Errorf("%s: %v, %d bytes, %s", name, err, len(out), &problems)
		}
	}
}

func TestCompletionsOfBashAreLoaded(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the archive is a zip")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	dir, _ := unpacked(t, "gapless_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	out, err := output(t.Context(), dir, bash, "-c",
		". completions/gapless.bash && complete -p gapless && ./gapless __complete ser")
	if err != nil || !strings.Contains(string(out), "serve\t") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheBillNamesTheModulesOfTheProgram(t *testing.T) {
	text, err := os.ReadFile(one(t, "gapless_*.cdx.json"))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	var bill cdx.BOM
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatalf("read the bill: %v", err)
	}
	listed := map[string]bool{}
	for _, c := range *bill.Components {
		listed[c.Name] = c.Version != "" && strings.HasPrefix(c.PackageURL, "pkg:golang/")
	}
	for _, want := range []string{"k8s.io/apimachinery", "github.com/spf13/cobra", "std"} {
		if !listed[want] {
			t.Errorf("the bill has not %s with its version, of %d modules", want, len(listed))
		}
	}
	if bill.Metadata.Component.Name != "github.com/gapless-io/gapless" || bill.SpecVersion != cdx.SpecVersion1_6 {
		t.Errorf("it is a bill %s of %s", bill.SpecVersion, bill.Metadata.Component.Name)
	}
}

// TestKrewInstallsThePlugin installs with krew's own program, from the archive instead of the network.
func TestKrewInstallsThePlugin(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("plugins are no links there")
	}
	home := t.TempDir()
	krew := filepath.Join(home, "krew-program")
	if _, err := output(t.Context(), ".", "go", "build", "-o", krew, "sigs.k8s.io/krew/cmd/krew"); err != nil {
		t.Fatalf("build krew: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), krew, "install", "--manifest", one(t, "gapless.krew.yaml"),
		"--archive", one(t, "gapless_*.tar.gz"))
	cmd.Env = append(os.Environ(), "KREW_ROOT="+home, "KREW_NO_UPGRADE_CHECK=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	out, err := output(t.Context(), home, filepath.Join(home, "bin", "kubectl-gapless"), "version")
	if err != nil || !strings.Contains(string(out), "gapless") {
		t.Errorf("the plugin: %v\n%s", err, out)
	}
}

func TestTheChartsHaveTheVersionOfTheRelease(t *testing.T) {
	archive := filepath.Base(one(t, "gapless_*_"+runtime.GOARCH+".*z*"))
	version := strings.TrimPrefix(strings.Split(archive, "_")[1], "v")
	for _, chart := range []string{"gapless", "gapless-relay"} {
		dir, files := unpacked(t, chart+"-"+version+".tgz")
		text, err := os.ReadFile(filepath.Join(dir, chart, "Chart.yaml"))
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		app := "appVersion: v" + strings.ReplaceAll(version, "+", "-") + "\n"
		if !strings.Contains(string(text), "\nversion: "+version+"\n") || !strings.Contains(string(text), app) {
			t.Errorf("%s is not of %s:\n%s", chart, version, text)
		}
		for _, name := range []string{"values.yaml", "values.schema.json", "templates/_helpers.tpl"} {
			if files[chart+"/"+name] == nil {
				t.Errorf("%s has no %s", chart, name)
			}
		}
	}
}

// ready waits until a server answers, and returns what.
func ready(t *testing.T, client *http.Client, url string, gone <-chan error) string {
	t.Helper()
	for {
		resp, err := client.Get(url)
		if err == nil {
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close() // it was read
			if err == nil && resp.StatusCode == http.StatusOK {
				return string(text)
			}
		}
		select {
		case err := <-gone:
			t.Fatalf("the server ended: %v", err)
		case <-t.Context().Done():
			t.Fatal("the test ended before the server was ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
