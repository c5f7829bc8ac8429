package conformance

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/gapless-io/gapless/compat/harness"
)

// programs returns a directory with gapless and setup-envtest.
func programs(t *testing.T) string {
	t.Helper()
	bin, tools := t.TempDir(), harness.CacheDir(t, "envtest")
	if _, err := harness.Build(t.Context(), bin, harness.Root(), "cmd/gapless"); err != nil {
		t.Fatalf("build: %v", err)
	}
	harness.Must(t, ".", []string{"GOBIN=" + tools, "GOWORK=auto"}, "go", "install", "-ldflags=-s -w", "tool")
	if err := os.Symlink(filepath.Join(tools, "setup-envtest"), filepath.Join(bin, "setup-envtest")); err != nil {
		t.Fatalf("make a link: %v", err)
	}
	return bin
}

// prints runs a program and returns what it prints.
func prints(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(program), args, err, said.String())
	}
	return strings.TrimSpace(string(out))
}

// works starts an environment and uses it, with a user of its own who may do nothing.
func works(t *testing.T, e *envtest.Environment) {
	t.Helper()
	admin, err := e.Start()
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	defer func() {
		if err := e.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}()
	maps := kubernetes.NewForConfigOrDie(admin).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		metav1.CreateOptions{}); err != nil {
		t.Errorf("create a config map: %v", err)
	}
	user, err := e.AddUser(envtest.User{Name: "nobody"}, nil)
	if err != nil {
		t.Fatalf("add user: %v", err)
	}
	others := kubernetes.NewForConfigOrDie(user.Config()).CoreV1().ConfigMaps("default")
	if _, err := others.Get(t.Context(), "a", metav1.GetOptions{}); err == nil ||
		!strings.Contains(err.Error(), `User "nobody" cannot get resource "configmaps"`) {
		t.Errorf("a user without roles: %v, want 403", err)
	}
}

func TestSetupEnvtestInstallsGaplessFromAnIndex(t *testing.T) {
	t.Parallel()
	bin, dist, store := programs(t), t.TempDir(), t.TempDir()
	setup := filepath.Join(bin, "setup-envtest")
	server := httptest.NewServer(http.FileServerFS(os.DirFS(dist)))
	defer server.Close()
	index := server.URL + "/envtest-releases.yaml"
	prints(t, filepath.Join(bin, "gapless"), "envtest", "index", "--out="+dist, "--url="+server.URL)

	if list := prints(t, setup, "list", "--index="+index, "--bin-dir="+store); !strings.HasPrefix(list, "(available)  v1.37.2") {
		t.Errorf("setup-envtest lists %q", list)
	}
	assets := prints(t, setup, "use", "--index="+index, "--bin-dir="+store, "--print=path")
	if list := prints(t, setup, "list", "--installed-only", "--bin-dir="+store); !strings.HasPrefix(list,
		"(installed)  v1.37.2") {
		t.Errorf("setup-envtest lists %q", list)
	}
	if out := prints(t, filepath.Join(assets, "kube-apiserver"), "--version"); !strings.HasPrefix(out,
		"Kubernetes v1.37.2+gapless") {
		t.Errorf("kube-apiserver is %q", out)
	}
	works(t, &envtest.Environment{BinaryAssetsDirectory: assets})
	// Package envtest downloads by itself too.
	works(t, &envtest.Environment{
		DownloadBinaryAssets: true, DownloadBinaryAssetsIndexURL: index, BinaryAssetsDirectory: t.TempDir(),
	})
	prints(t, setup, "cleanup", "--bin-dir="+store)
}

func TestSetupEnvtestFindsWhatIsInstalledAsAnotherVersion(t *testing.T) {
	t.Parallel()
	bin, store := programs(t), t.TempDir()
	assets := prints(t, filepath.Join(bin, "gapless"), "envtest", "install", "--dir="+store, "--as=1.35.0", "--print=path")
	// As the Makefile of a kubebuilder project asks: nothing is downloaded.
	if found := prints(t, filepath.Join(bin, "setup-envtest"), "use", "1.35", "--index=http://127.0.0.1:1", "--bin-dir="+store,
		"--print=path"); found != assets {
		t.Errorf("setup-envtest finds %q, want %q", found, assets)
	}
	works(t, &envtest.Environment{BinaryAssetsDirectory: assets})
}

func TestCommandsOfTheEnvtestPageWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "envtest.md"))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	script, shown := harness.Commands(string(page), nil)
	if shown < 4 {
		t.Errorf("%d commands show what they print, want at least 4: the page is not read as it should be", shown)
	}
	bin, home := programs(t), t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "XDG_DATA_HOME="+filepath.Join(home, "data"))
	if out, err := harness.RunGroup(cmd); err != nil {
		t.Errorf("the script: %v:\n%s", err, out)
	}
}
