package suites

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// made is a directory that an operator's Makefile makes, and that its module does not have.
type made struct {
	dir string
	// module is one that the operator depends on; the files are those of its directory from. Without
	// it they are what kustomize builds from the operator's own directory from.
	module, from string
	// types is a package whose definitions controller-gen writes, where the Makefile downloads them.
	types string
	// without is a file in from that is not copied.
	without string
}

const (
	kustomize     = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"
	controllerGen = "sigs.k8s.io/controller-tools/cmd/controller-gen@v0.20.1"
)

// prepare does to a copy of the operator's module what its Makefile does before the suites run, and
// what the go command does if the module is a dependency.
func (o operator) prepare(t *testing.T, dir string) {
	t.Helper()
	o.dropReplacements(t, dir)
	for _, m := range o.makes {
		to := filepath.Join(dir, m.dir)
		if m.types != "" {
			goCommand(t, dir, "run", controllerGen, "crd", "paths="+m.types, "output:crd:dir="+to)
			continue
		}
		if m.module != "" {
			copyFiles(t, filepath.Join(download(t, dir, m.module), m.from), to)
			if m.without == "" {
				continue
			}
			if err := os.Remove(filepath.Join(to, m.without)); err != nil {
				t.Fatalf("remove a file: %v", err)
			}
			continue
		}
		built := goCommand(t, t.TempDir(), "run", kustomize, "build", filepath.Join(dir, m.from))
		err := os.MkdirAll(to, 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, "built.yaml"), built, 0o644)
		}
		if err != nil {
			t.Fatalf("write what kustomize built: %v", err)
		}
	}
}

// dropReplacements drops those by directories of the operator's repository that its module does not
// have: the modules in these are published. It adds their sums.
func (o operator) dropReplacements(t *testing.T, dir string) {
	t.Helper()
	var mod struct {
		Replace []struct {
			Old, New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal(goCommand(t, dir, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	edit := []string{"mod", "edit"}
	for _, r := range mod.Replace {
		_, err := os.Stat(filepath.Join(dir, r.New.Path, "go.mod"))
		if r.New.Version == "" && (strings.HasPrefix(r.New.Path, "../") || err != nil) {
			edit = append(edit, "-dropreplace="+r.Old.Path)
		}
	}
	if len(edit) == len([]string{"mod", "edit"}) {
		return
	}
	goCommand(t, dir, edit...)
	list := []string{"list", "-mod=mod", "-deps", "-test"}
	for _, pkg := range slices.Sorted(slices.Values(o.packages)) {
		list = append(list, "./"+pkg)
	}
	goCommand(t, dir, list...)
}
