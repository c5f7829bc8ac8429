package gapless_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gapless-io/gapless"

// everything is what assembly may import.
const everything = "*"

// policy says which rooms a room may import. A package belongs to the room with
// the longest matching path, and packages of one room may import each other. A
// room that is missing here may import no other room and nobody may import it.
var policy = map[string][]string{
	"kube":                      nil,
	"internal/store":            nil,
	"internal/store/storetest":  {"internal/store"},
	"internal/store/revlog":     {"internal/store"},
	"internal/watchcache":       {"kube"},
	"internal/schema":           {"kube"},
	"internal/registry":         {"kube", "internal/store", "internal/schema", "internal/watchcache"},
	"internal/auth":             {"kube"},
	"internal/apiserver":        {"kube", "internal/schema", "internal/auth"},
	"client":                    {"kube"},
	"informer":                  {"kube", "client", "informer/internal/queue"},
	"informer/internal/queue":   nil,
	"":                          {everything},
	"cmd/gapless":               {everything},
	"examples":                  {"informer"},
	"examples/internal/rigtest": {"", "kube"},
}

// inTests is what a room's tests may import besides: the suite that backends
// run, and the memory mode of the engine below what is tested.
var inTests = map[string][]string{
	"internal/store/revlog":    {"internal/store/storetest"},
	"internal/store/storetest": {"internal/store/revlog"},
	"internal/registry":        {"internal/store/revlog", "internal/apiserver"},
	"internal/apiserver":       {"internal/store", "internal/store/revlog", "internal/registry", "internal/watchcache"},
	"informer":                 {""},
	"client":                   {""},
	"examples":                 {"examples/internal/rigtest"},
}

type listed struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// packages lists the packages of the core module.
func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("go list output: %v", err)
		}
		all = append(all, p)
	}
}

// inside returns a path relative to the module, and whether it is of the module.
func inside(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// roomOf returns the room of a package: the longest path in the policy that is
// the package's own or above it.
func roomOf(pkg string) (string, bool) {
	for room := pkg; ; {
		if _, ok := policy[room]; ok {
			return room, room != "" || pkg == ""
		}
		i := strings.LastIndexByte(room, '/')
		if i < 0 {
			return "", pkg == ""
		}
		room = room[:i]
	}
}

func TestImportsFollowTheArrowsOfTheArchitecture(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		pkg, _ := inside(p.ImportPath)
		room, ok := roomOf(pkg)
		if !ok {
			t.Errorf("package %q belongs to no room of the import policy", pkg)
			continue
		}
		used[room] = true
		check := func(imports []string, allowed ...string) {
			for _, path := range imports {
				dep, ours := inside(path)
				to, _ := roomOf(dep)
				if ours && to != room && !slices.Contains(allowed, to) && !slices.Contains(allowed, everything) {
					t.Errorf("%s must not import %s", pkg, dep)
				}
			}
		}
		check(p.Imports, policy[room]...)
		tests := append(slices.Clone(policy[room]), inTests[room]...)
		check(p.TestImports, tests...)
		check(p.XTestImports, tests...)
	}
	for room := range policy {
		if !used[room] {
			t.Errorf("room %q of the import policy has no package", room)
		}
	}
}

func TestProductionCodeImportsNoTestingRoom(t *testing.T) {
	for _, p := range packages(t) {
		pkg, _ := inside(p.ImportPath)
		for _, path := range p.Imports {
			dep, ours := inside(path)
			if ours && strings.HasSuffix(dep, "test") && !strings.HasSuffix(pkg, "test") {
				t.Errorf("%s imports %s, which is for tests", pkg, dep)
			}
			if path == "testing" && !strings.HasSuffix(pkg, "test") {
				t.Errorf("%s imports testing", pkg)
			}
		}
	}
}

// TestClientGosInformersStayOutside: the core uses client-go to connect, never its
// informers. What stands in for them is a module of its own, informer/clientgo.
func TestClientGosInformersStayOutside(t *testing.T) {
	for _, p := range packages(t) {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for _, informers := range []string{"k8s.io/client-go/tools/cache", "k8s.io/client-go/informers"} {
				if path == informers || strings.HasPrefix(path, informers+"/") {
					t.Errorf("%s imports %s", p.ImportPath, path)
				}
			}
		}
	}
}
