package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

const controllerRuntime = "sigs.k8s.io/controller-runtime"

// TestControllerRuntimeSuites runs suites of controller-runtime, as the module cache
// has them, against the built program: one server for each, which the suite
// uses as an existing cluster.
func TestControllerRuntimeSuites(t *testing.T) {
	t.Parallel()
	gapless, err := harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless")
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	plain := module(t, controllerRuntime)
	changed, modfile := withReplacement(t, plain)
	for _, s := range []*suite{
		{name: "cache", pkg: "cache", dir: plain},
		{name: "cache-standin", pkg: "cache", dir: changed, modfile: modfile},
		{name: "manager", pkg: "manager", dir: plain},
		{name: "controller", pkg: "controller", dir: plain},
		{name: "builder", pkg: "builder", dir: plain},
		{name: "cluster", pkg: "cluster", dir: plain},
		{name: "controllerutil", pkg: "controller/controllerutil", dir: plain},
		{name: "source", pkg: "source", dir: plain},
		{name: "handler", pkg: "handler", dir: plain},
		{name: "recorder", pkg: "internal/recorder", dir: plain},
		{name: "internal-controller", pkg: "internal/controller", dir: plain},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.build(t)
			s.judge(t, func(names []string) map[string]string {
				return s.run(t, existing(harness.StartProgram(t, gapless)), names...)
			})
		})
	}
}

// TestControllerRuntimeSuitesStartTheServer runs the suites that need more than one server, or
// a server without controllers, as kube-apiserver alone is: package envtest starts gapless
// as kube-apiserver and etcd.
func TestControllerRuntimeSuitesStartTheServer(t *testing.T) {
	t.Parallel()
	env := dropIn(t)
	plain := module(t, controllerRuntime)
	for _, s := range []*suite{
		{name: "client", pkg: "client", dir: plain},
		{name: "webhook", pkg: "webhook", dir: plain},
		{name: "envtest", pkg: "envtest", dir: plain},
		{name: "integration", pkg: "manager/internal/integration", dir: plain},
		{name: "filters", pkg: "metrics/filters", dir: plain},
		{name: "controlplane", pkg: "internal/testing/controlplane", dir: withScripts(t, plain)},
		{name: "apiutil", pkg: "client/apiutil", dir: plain, plain: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.build(t)
			s.judge(t, func(names []string) map[string]string { return s.run(t, env, names...) })
		})
	}
}

// withScripts returns a directory for the suite controlplane, in which the scripts that play
// old servers can be executed: the module cache does not keep modes.
func withScripts(t *testing.T, from string) string {
	t.Helper()
	dir, data := t.TempDir(), filepath.Join("pkg", "internal", "testing", "controlplane", "testdata")
	if err := os.CopyFS(filepath.Join(dir, data), os.DirFS(filepath.Join(from, data))); err != nil {
		t.Fatalf("copy the directory: %v", err)
	}
	scripts, err := filepath.Glob(filepath.Join(dir, data, "*.sh"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts in %s: %v", data, err)
	}
	for _, script := range scripts {
		if err := os.Chmod(script, 0o755); err != nil {
			t.Fatalf("change the mode of a file: %v", err)
		}
	}
	return dir
}

// existing is the environment in which package envtest uses a server that runs.
func existing(server *harness.Server) []string {
	return append(os.Environ(), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+server.Kubeconfig)
}

// dropIn returns the environment in which package envtest finds gapless as the programs that it
// starts. A suite that asks for an older version finds it too.
func dropIn(t *testing.T) []string {
	t.Helper()
	data := t.TempDir()
	// Where setup-envtest installs if XDG_DATA_HOME is data.
	assets := installed(t, filepath.Join(data, "kubebuilder-envtest"), "1.28.0")
	return append(os.Environ(), "USE_EXISTING_CLUSTER=false", "XDG_DATA_HOME="+data, "KUBEBUILDER_ASSETS="+assets)
}

// installed builds gapless, installs it in a store as a version, and returns the directory of
// the programs.
func installed(t testing.TB, store, version string) (assets string) {
	t.Helper()
	gapless, err := harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless")
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), gapless, "envtest", "install", "--dir="+store, "--as="+version, "--print=path")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("output cmd: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// withReplacement copies controller-runtime, makes the replacement the informer that its cache
// uses by default. It returns where it is, and a go.mod for this module that says so.
func withReplacement(t *testing.T, from string) (dir, modfile string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatalf("copy the directory: %v", err)
	}
	edit(t, filepath.Join(dir, "pkg", "cache", "internal", "informers.go"),
		"newInformer := cache.NewSharedIndexInformer", "newInformer := standin.New",
		"import (", `import (
	standin "github.com/gapless-io/gapless/informer/clientgo"`)
	beside := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		if err := os.WriteFile(filepath.Join(beside, name), text, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	modfile = filepath.Join(beside, "go.mod")
	run(t, "go", "mod", "edit", "-replace="+controllerRuntime+"="+dir, modfile)
	return dir, modfile
}

// edit replaces each old text of a file, which must be there once, by the new one behind it.
func edit(t *testing.T, file string, oldNew ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	for i := 0; i < len(oldNew); i += 2 {
		if n := strings.Count(string(text), oldNew[i]); n != 1 {
			t.Fatalf("%s has %q %d times", file, oldNew[i], n)
		}
	}
	if err := os.WriteFile(file, []byte(strings.NewReplacer(oldNew...).Replace(string(text))), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
}
