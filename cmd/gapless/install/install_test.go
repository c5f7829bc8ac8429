package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// do runs the command with arguments and returns what it prints.
func do(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Program{Out: &out, Err: io.Discard, Usage: func(err error) error { return err }}.Command()
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func own(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	return body
}

func TestInstallWritesThreeCopiesAndPrintsWhereTheyAre(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	assets := filepath.Join(dir, "k8s", gapless.KubernetesVersion+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	for range 2 { // a second time, over itself
		out, err := do(t, "install", "--dir", dir)
		if want := "export KUBEBUILDER_ASSETS='" + strings.ReplaceAll(assets, "'", `'\''`) + "'\n"; out != want || err != nil {
			t.Fatalf("%v, printed %s, want %s", err, out, want)
		}
	}
	entries, err := os.ReadDir(assets)
	if err != nil {
		t.Fatalf("list a directory: %v", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := os.Lstat(filepath.Join(assets, e.Name()))
		if err != nil || info.Mode() != 0o755 {
			t.Errorf("%s has mode %v, %v, want a file that can be run", e.Name(), info.Mode(), err)
		}
		if body, err := os.ReadFile(filepath.Join(assets, e.Name())); err != nil || !bytes.Equal(body, own(t)) {
			t.Errorf("%s is no copy: %v", e.Name(), err)
		}
	}
	if diff := cmp.Diff([]string{"etcd", "kube-apiserver", "kubectl"}, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestInstallAsAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	out, err := do(t, "install", "--dir", dir, "--as", "v1.35.0", "--print", "path")
	if want := filepath.Join(dir, "k8s", "1.35.0-"+runtime.GOOS+"-"+runtime.GOARCH) + "\n"; out != want || err != nil {
		t.Errorf("%v, printed %s, want %s", err, out, want)
	}
	for _, wrong := range []string{"1.35", "latest", "1.35.0-rc.1", "../../1.35.0", ""} {
		if out, err := do(t, "install", "--dir", dir, "--as", wrong); err == nil {
			t.Errorf("--as %q is accepted: %s", wrong, out)
		}
	}
	if out, err := do(t, "install", "--dir", dir, "--print", "json"); err == nil {
		t.Errorf("--print json is accepted: %s", out)
	}
}

func TestInstallReplacesNoOtherProgramUnlessForced(t *testing.T) {
	dir := t.TempDir()
	assets := filepath.Join(dir, "k8s", gapless.KubernetesVersion+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	if err := os.MkdirAll(assets, 0o755); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	other := filepath.Join(assets, "etcd")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o555); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if err := os.Chmod(assets, 0o555); err != nil { // as setup-envtest leaves it
		t.Fatalf("change the mode of a file: %v", err)
	}
	_, err := do(t, "install", "--dir", dir)
	if err == nil || !strings.Contains(err.Error(), other+" is another program") {
		t.Errorf("error %v, want that etcd is another program", err)
	}
	if body, err := os.ReadFile(other); string(body) != "#!/bin/sh\n" || err != nil {
		t.Errorf("etcd has become %q, %v", body, err)
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kube-apiserver was written beside it: %v", err)
	}
	if _, err := do(t, "install", "--dir", dir, "--force"); err != nil {
		t.Errorf("run: %v", err)
	}
	if body, err := os.ReadFile(other); !bytes.Equal(body, own(t)) || err != nil {
		t.Errorf("etcd was not replaced: %v", err)
	}
}

func TestDefaultDirectoryIsThatOfSetupEnvtest(t *testing.T) {
	for _, c := range []struct {
		system string
		env    map[string]string
		want   string
	}{
		{"linux", map[string]string{"HOME": "/h"}, "/h/.local/share/kubebuilder-envtest"},
		{"linux", map[string]string{"HOME": "/h", "XDG_DATA_HOME": "/x"}, "/x/kubebuilder-envtest"},
		{
			"darwin",
			map[string]string{"HOME": "/h", "XDG_DATA_HOME": "/x"},
			"/h/Library/Application Support/io.kubebuilder.envtest",
		},
		{"windows", map[string]string{"LocalAppData": "/l"}, "/l/kubebuilder-envtest"},
		{"linux", nil, ""},
		{"darwin", nil, ""},
		{"windows", nil, ""},
	} {
		got, err := defaultDir(c.system, func(name string) string { return c.env[name] })
		if filepath.ToSlash(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s %v: %q, %v, want %q", c.system, c.env, got, err, c.want)
		}
	}
}

func TestIndexNamesArchivesThatSetupEnvtestReads(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if _, err := do(t, "index", "--out", dir, "--url", "https://example.org/x/", "--program", "linux/arm64="+program, "--program",
		"windows/amd64="+program); err != nil {
		t.Fatalf("run: %v", err)
	}
	body, err := os.ReadFile(filepath.Join(dir, IndexName))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	var got index
	if err := yaml.UnmarshalStrict(body, &got); err != nil {
		t.Fatalf("unmarshal strict: %v", err)
	}
	want := index{Releases: map[string]map[string]archive{"v" + gapless.KubernetesVersion: {}}}
	for platform, names := range map[string]string{
		"linux-arm64": "kube-apiserver etcd kubectl", "windows-amd64": "kube-apiserver.exe etcd.exe kubectl.exe",
	} {
		name := "envtest-v" + gapless.KubernetesVersion + "-" + platform + ".tar.gz"
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		sum := sha512.Sum512(raw)
		want.Releases["v"+gapless.KubernetesVersion][name] = archive{
			Hash: hex.EncodeToString(sum[:]), SelfLink: "https://example.org/x/" + name,
		}
		if got := contents(t, raw); got != names {
			t.Errorf("%s has %s, want %s", name, got, names)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// contents returns the names of the programs in an archive, and checks the rest.
func contents(t *testing.T, raw []byte) string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("make a reader: %v", err)
	}
	files := tar.NewReader(unzipped)
	var names []string
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(names, " ")
		}
		if err != nil {
			t.Fatalf("next files: %v", err)
		}
		body, err := io.ReadAll(files)
		if err != nil || string(body) != "a program" || header.Mode != 0o755 ||
			filepath.Dir(header.Name) != "controller-tools/envtest" {
			t.Errorf("%s, mode %o: %q, %v", header.Name, header.Mode, body, err)
		}
		names = append(names, filepath.Base(header.Name))
	}
}

func TestIndexRefusesWhatNobodyCouldDownload(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"--url", "dist"},
		{"--url", "file:///dist"},
		{"--url", "http://a", "--program", "linux=file"},
		{"--url", "http://a", "--program", "linux/arm64"},
		{"--url", "http://a", "--program", "../linux/arm64=file"},
		{"--url", "http://a", "--program", "linux/arm64=a", "--program", "linux/arm64=b"},
		{"--url", "http://a", "--program", "linux/arm64=missing"},
		{"--url", "http://a", "--as", "1.37"},
	} {
		if out, err := do(t, append([]string{"index", "--out", t.TempDir()}, args...)...); err == nil {
			t.Errorf("%v is accepted: %s", args, out)
		}
	}
}
