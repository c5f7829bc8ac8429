package informer

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
)

// generated are the resources of the built-in kinds as upstream's generators call them:
// by package and kind, read in the source of the generated clients' fakes.
func generated(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	if err != nil {
		t.Fatalf("run the command: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "kubernetes/typed/*/*/fake/fake_*.go"))
	if err != nil {
		t.Fatalf("look for files: %v", err)
	}
	imports := regexp.MustCompile(`(\w+) "(k8s\.io/api/[a-z0-9/]+)"`)
	kind := regexp.MustCompile(`WithResource\("([a-z]+)"\),\s+(\w+)\.SchemeGroupVersion\.WithKind\("(\w+)"\)`)
	found := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		names := kind.FindStringSubmatch(string(text))
		for _, api := range imports.FindAllStringSubmatch(string(text), -1) {
			if names != nil && names[2] == api[1] {
				found[api[2]+" "+names[3]] = names[1]
			}
		}
	}
	return found
}

func TestBuiltinKnowsTheResourceOfEveryGeneratedClient(t *testing.T) {
	resources := generated(t)
	checked := map[string]bool{}
	for gvk, kind := range scheme.Scheme.AllKnownTypes() {
		name := kind.PkgPath() + " " + kind.Name()
		plural, is := resources[name]
		if !is {
			continue
		}
		got, err := builtinResource(reflect.PointerTo(kind))
		if want := gvk.GroupVersion().WithResource(plural); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, err, want)
		}
		checked[name] = true
	}
	for name := range resources {
		if !checked[name] {
			t.Errorf("%s was not checked: the scheme does not have it", name)
		}
	}
	if len(checked) < 90 {
		t.Errorf("there are %d kinds", len(checked))
	}
}
