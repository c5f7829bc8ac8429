package concurrent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPackagesThatStartNothingCannotHaveARace(t *testing.T) {
	dir, list := t.TempDir(), &strings.Builder{}
	add := func(p Package, text string) {
		p.Dir = filepath.Join(dir, filepath.FromSlash(p.ImportPath))
		if err := os.MkdirAll(p.Dir, 0o750); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			if err := os.WriteFile(filepath.Join(p.Dir, name), []byte("package x\n"+text), 0o600); err != nil {
				t.Fatalf("write a file: %v", err)
			}
			text = ""
		}
		if err := json.NewEncoder(list).Encode(&p); err != nil {
			t.Fatalf("encode: %v", err)
		}
	}
	tested := func(path string, deps ...string) {
		add(Package{ImportPath: path, GoFiles: []string{"a.go"}}, "")
		add(Package{ImportPath: path + " [" + path + ".test]"}, "")
		add(Package{ImportPath: path + ".test", Deps: append(deps, path+" ["+path+".test]")}, "")
	}
	add(Package{ImportPath: "m/starts", GoFiles: []string{"a.go", "b.go"}}, "func f() { go f() }")
	add(Package{ImportPath: "m/calls", GoFiles: []string{"a.go"}}, "func f() { wg.Go(f) }")
	add(Package{ImportPath: "m/forgets", GoFiles: []string{"a.go"}}, "func f() { time.AfterFunc(1, f) }")
	add(Package{ImportPath: "m/forgets.test"}, "")
	tested("m/plain", "other/m/starts", "m/pure", "m/forgets")
	tested("m/pure")
	tested("m/above", "m/pure", "m/starts")
	tested("m/callsabove", "m/calls")
	add(Package{ImportPath: "m/inittests", TestGoFiles: []string{"a_test.go"}}, "func f(t T) { t.Parallel() }")
	add(Package{ImportPath: "m/inittests.test"}, "")

	can, cannot, err := Split(strings.NewReader(list.String()), "m/")
	if err != nil {
		t.Fatalf("split: %v", err)
	}
	if want := []string{"m/above", "m/callsabove", "m/forgets", "m/inittests"}; !slices.Equal(can, want) {
		t.Errorf("can have a race: %q, want %q", can, want)
	}
	if want := []string{"m/plain", "m/pure"}; !slices.Equal(cannot, want) {
		t.Errorf("cannot have a race: %q, want %q", cannot, want)
	}
}
