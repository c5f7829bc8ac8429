package suites

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// side is a control plane.
type side struct {
	name   string
	assets string // the directory with its programs
	data   string // what XDG_DATA_HOME says
}

// as is the version as which both are installed: suites of controller-runtime ask for it.
const as = "1.28.0"

// storeIn is where setup-envtest installs if XDG_DATA_HOME is data.
func storeIn(data string) string { return filepath.Join(data, "kubebuilder-envtest") }

// environment is the one in which package envtest finds the side's programs. Each is also named by
// itself, for suites that name a directory of their own. A start may take long on a machine that
// others use too.
func (s side) environment() []string {
	return append(os.Environ(), "KUBEBUILDER_ASSETS="+s.assets, "XDG_DATA_HOME="+s.data, "USE_EXISTING_CLUSTER=false",
		"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=3m",
		"TEST_ASSET_KUBE_APISERVER="+filepath.Join(s.assets, "kube-apiserver"),
		"TEST_ASSET_ETCD="+filepath.Join(s.assets, "etcd"),
		"TEST_ASSET_KUBECTL="+filepath.Join(s.assets, "kubectl"))
}

// installGapless builds the program and lets it install itself.
func installGapless(t *testing.T) side {
	t.Helper()
	data := t.TempDir()
	gapless, err := harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless")
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), gapless, "envtest", "install", "--dir="+storeIn(data), "--as="+as, "--print=path")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("output cmd: %v", err)
	}
	return side{name: "gapless", assets: strings.TrimSpace(string(out)), data: data}
}

// installUpstream builds kube-apiserver and etcd. The programs stay outside the checkout, so that
// they are linked only once.
func installUpstream(t *testing.T) side {
	t.Helper()
	data := filepath.Join(harness.CacheDir(t, "suites"), "upstream")
	assets := filepath.Join(storeIn(data), "k8s", as+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	// The version is what upstream's release script sets; suites read it.
	const version = "k8s.io/component-base/version."
	harness.Must(t, filepath.Join("..", "..", "conformance", "apiserver", "program"), []string{"GOWORK=auto"}, "go", "build",
		"-ldflags=-s -w -X "+version+"gitVersion=v1.37.2 -X "+version+"gitMajor=1 -X "+version+"gitMinor=37 -X "+version+
			"gitTreeState=clean",
		"-o", filepath.Join(assets, "kube-apiserver"), "k8s.io/kubernetes/cmd/kube-apiserver")
	etcd := filepath.Join(assets, "etcd")
	harness.Must(t, ".", []string{"GOWORK=auto"}, "go", "build", "-ldflags=-s -w", "-o", etcd, "./etcd")
	kubectl := filepath.Join(assets, "kubectl") // no suite here runs it; package envtest wants its path
	if err := os.Remove(kubectl); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.Link(etcd, kubectl); err != nil {
		t.Fatalf("link: %v", err)
	}
	return side{name: "upstream", assets: assets, data: data}
}
