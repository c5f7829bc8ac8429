package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/gapless-io/gapless"

// everything is what assembly may import.
const everything = "*"

// policy says which packages a package may import. A package belongs to the entry with
// the longest matching path, and packages of one entry may import each other. A
// package without an entry may import no other, and no other may import it.
var policy = map[string][]string{
	"kube":                        nil,
	"status":                      {"kube"},
	"internal/wire":               {"kube"},
	"internal/durable":            nil,
	"internal/scratch":            nil,
	"internal/tracing":            nil,
	"internal/starts":             {"kube", "internal/wire", "internal/durable"},
	"internal/store":              nil,
	"internal/store/storetest":    {"internal/store"},
	"internal/store/revlog":       {"internal/store", "internal/durable"},
	"internal/store/encrypted":    {"internal/store"},
	"internal/store/etcd":         {"internal/store", "internal/store/revlog"},
	"internal/store/failing":      {"internal/store"},
	"internal/store/etcd/members": nil,
	"internal/mirror":             {"kube", "internal/wire", "internal/store", "internal/store/revlog"},
	"internal/relay": {
		"kube", "internal/wire", "client", "informer", "internal/mirror", "internal/watchcache", "internal/kinds",
		"internal/registry",
		"internal/registry/caches", "internal/registry/stored", "internal/auth", "internal/apiserver", "internal/relay/kept",
		"internal/relay/table", "internal/tracing",
	},
	"internal/watchcache": {"kube", "internal/wire"},
	"internal/kinds":      {"kube", "internal/wire"},
	"internal/hook":       {"kube", "internal/wire", "internal/kinds", "internal/tracing"},
	"internal/patch":      {"kube", "internal/wire", "internal/kinds"},
	"internal/quota":      {"kube", "internal/wire", "internal/kinds"},
	"internal/admission":  {"kube", "internal/wire", "internal/kinds", "internal/auth", "internal/quota", "internal/tracing"},
	"internal/admission/webhook": {
		"kube", "internal/wire", "internal/kinds", "internal/admission", "internal/hook", "internal/patch", "internal/tracing",
	},
	"internal/registry": {
		"kube", "internal/wire", "internal/store", "internal/kinds", "internal/watchcache", "internal/admission", "internal/hook",
		"internal/patch", "internal/registry/caches",
		"internal/registry/lifecycle", "internal/registry/stored", "internal/registry/strategy", "internal/tracing",
	},
	"internal/addresses": {"internal/admission", "kube", "internal/wire", "internal/kinds", "internal/registry"},
	"internal/bootstrap": {"kube", "internal/wire", "internal/kinds", "internal/auth/rbac/rules"},
	"internal/seed":      {"kube", "internal/wire", "internal/kinds"},
	"internal/backup":    {"internal/store", "internal/store/revlog", "internal/durable"},
	"internal/baseline":  {"internal/store"},
	"internal/migrate": {
		"internal/store", "internal/store/revlog", "internal/store/encrypted", "internal/store/etcd",
		"internal/store/etcd/members",
		"internal/backup", "internal/kinds",
	},
	"internal/serve": {
		"kube", "internal/durable", "internal/store/revlog", "internal/registry", "internal/controllers",
		"internal/controllers/expiry", "internal/apiserver", "internal/refusal", "internal/wire", "status",
		"internal/watchcache",
	},
	"internal/seam":            {"kube", "internal/baseline", "internal/store/revlog"},
	"internal/faulthost":       nil,
	"internal/controllers":     {"kube", "internal/wire", "internal/kinds", "internal/quota"},
	"internal/auth":            {"kube", "internal/wire", "internal/durable"},
	"internal/auth/rbac":       {"kube", "internal/wire", "internal/kinds", "internal/auth", "internal/auth/rbac/rules"},
	"internal/auth/rbac/rules": {"internal/auth"},
	"internal/auth/nodes":      {"internal/wire", "internal/kinds", "internal/auth", "internal/auth/rbac/rules"},
	"internal/audit":           nil,
	"internal/aggregator": {
		"kube", "internal/wire", "internal/kinds", "internal/hook", "internal/upstream", "internal/tracing",
	},
	"internal/past":      {"kube"},
	"internal/dashboard": {"kube", "internal/past", "status"}, // it reads by the handler of the API
	"internal/dashboard/port": {
		"kube", "internal/dashboard", "internal/kinds", "internal/auth", "internal/apiserver", "internal/serve",
	},
	"internal/apiserver": {
		"kube", "internal/wire", "internal/kinds", "internal/auth", "internal/audit", "internal/aggregator", "internal/tracing",
		"status",
	},
	"internal/export":       {"kube", "internal/wire", "client", "internal/seed"},
	"client":                {"kube"},
	"internal/refusal":      {"kube", "internal/wire"},
	"fault":                 {"kube", "internal/wire", "internal/refusal", "internal/store/failing", "internal/faulthost"},
	"internal/upstream":     {"kube", "internal/wire", "internal/tracing"},
	"internal/proxy":        {"fault", "internal/auth", "internal/upstream", "internal/faulthost"},
	"internal/relay/access": {"kube", "internal/wire", "client", "internal/auth", "internal/relay/kept"},
	"internal/relay/kept":   {"internal/durable"},
	"internal/relay/table":  {"kube", "internal/wire", "internal/kinds"},
	"internal/relay/front": {
		"internal/relay", "internal/relay/access", "internal/relay/pass",
		"internal/auth", "internal/refusal", "internal/apiserver", "internal/tracing", "status",
	},
	"internal/relay/pass": {
		"kube", "internal/wire", "internal/auth", "internal/refusal", "internal/upstream", "internal/relay/kept",
	},
	"internal/relay/relaytest": {"", "gaplesstest"}, // for tests

	// The informer, from the bottom to the top: values; what they are made of and how an
	// object is held; the state and the transition table; one stream; what changes go
	// through; the cache; the API.
	"informer/internal/identity":   nil,
	"informer/internal/dictionary": nil,
	"informer/internal/decode":     {"kube"},
	"informer/internal/incident":   {"kube"},
	"informer/internal/protobuf":   {"kube", "client", "informer/internal/decode"},
	"informer/internal/handle":     {"informer/internal/decode", "informer/internal/dictionary"},
	"informer/internal/transition": {"kube", "informer/internal/incident"},
	"informer/internal/state":      {"kube", "client", "informer/internal/handle"},
	"informer/internal/attempt":    {"kube", "client", "informer/internal/transition"},
	"informer/internal/remote": {
		"client", "informer/internal/decode", "informer/internal/handle", "informer/internal/identity",
		"informer/internal/protobuf",
	},
	"informer/internal/reflector": {
		"kube", "client", "informer/internal/attempt", "informer/internal/handle", "informer/internal/incident",
		"informer/internal/state", "informer/internal/transition",
	},
	"informer/internal/index":   {"informer/internal/handle", "informer/internal/incident", "informer/internal/state"},
	"informer/internal/queue":   {"informer/internal/handle", "informer/internal/incident", "informer/internal/state"},
	"informer/internal/persist": {"client", "informer/internal/handle"},
	"informer/internal/cache": {
		"kube", "informer/internal/handle", "informer/internal/incident", "informer/internal/index",
		"informer/internal/persist", "informer/internal/queue", "informer/internal/reflector",
		"informer/internal/state", "informer/internal/transition",
	},
	"informer": {
		"kube", "client", "informer/internal/cache", "informer/internal/decode",
		"informer/internal/handle", "informer/internal/identity", "informer/internal/incident",
		"informer/internal/index", "informer/internal/persist", "informer/internal/queue",
		"informer/internal/reflector", "informer/internal/remote", "informer/internal/state",
		"informer/internal/transition",
	},
	"informer/share":         {"informer"},
	"informer/listwatchtest": {"kube", "client"}, // for tests

	"":               {everything},
	"cmd/gapless":    {everything},
	"e2e":            nil, // tests only
	"internal/house": nil, // tests, and the tool that breaks lines
	"gaplesstest": {
		"", "fault", "kube", "internal/wire", "internal/scratch", "internal/baseline", "internal/faulthost", "internal/seam",
	},
	"gaplesstest/processtest":   {"kube"},
	"examples":                  {"informer"},
	"examples/internal/rigtest": {"", "kube", "internal/wire"},

	// It deletes what the store holds, behind the verbs, as etcd does with leases.
	"internal/controllers/expiry": {"kube", "internal/store"},

	// The layers of the registry: only the verbs see all of them.
	"internal/registry/caches": {
		"kube", "internal/wire", "internal/store", "internal/kinds", "internal/watchcache", "internal/registry/stored",
	},
	"internal/registry/lifecycle": {
		"kube", "internal/wire", "internal/kinds", "internal/watchcache", "internal/registry/caches",
		"internal/registry/strategy",
	},
	"internal/registry/stored":   {"kube", "internal/wire", "internal/store", "internal/kinds", "internal/watchcache"},
	"internal/registry/strategy": {"kube", "internal/wire", "internal/kinds"},
}

// inTests is what the tests of a package may import besides: the suite that backends
// run, and the memory mode of the engine below what is tested.
var inTests = map[string][]string{
	"internal/store/revlog":      {"internal/store/storetest"},
	"internal/store/encrypted":   {"internal/store/revlog", "internal/store/storetest"},
	"internal/store/storetest":   {"internal/store/revlog"},
	"internal/registry":          {"internal/store/revlog", "internal/store/storetest", "internal/apiserver"},
	"internal/registry/stored":   {"internal/store/storetest"},
	"internal/admission":         {"internal/registry", "internal/store", "internal/store/revlog"},
	"internal/admission/webhook": {"internal/auth", "internal/registry", "internal/store/revlog"},
	"internal/addresses":         {"internal/store", "internal/store/revlog"},
	"internal/auth":              {"internal/auth/rbac/rules"},
	"internal/bootstrap":         {"internal/registry", "internal/store/revlog"},
	"internal/baseline":          {"internal/store/revlog"},
	"internal/serve":             {"internal/kinds"},
	"internal/dashboard":         {"", "fault", "internal/relay/relaytest"},
	"internal/seed":              {"internal/registry", "internal/store/revlog"},
	"internal/controllers":       {"internal/registry", "internal/store/revlog"},
	"internal/apiserver":         {"internal/store", "internal/store/revlog", "internal/registry", "internal/watchcache"},
	"informer":                   {"informer/listwatchtest"},
	"informer/share":             {"client", "kube", "informer/listwatchtest"},
	"informer/internal/persist":  {"informer/internal/decode"},
	"informer/internal/cache":    {"client"},
	"client":                     {""},
	"internal/relay":             {"gaplesstest", "informer/listwatchtest"},
	"internal/relay/access":      {"internal/refusal", "internal/relay/relaytest"},
	"internal/relay/pass":        {"internal/relay/access", "internal/relay/relaytest"},
	"e2e":                        {everything},
	"internal/house":             {everything},
	"examples":                   {"examples/internal/rigtest"},

	"internal/controllers/expiry": {"internal/store/revlog", "internal/store/failing"},
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

// packages lists the packages of the root module and of the modules kube, client, informer
// and gaplesstest/processtest.
func packages(t *testing.T) []listed {
	t.Helper()
	all, err := listPackages()
	if err != nil {
		t.Fatalf("list the packages: %v", err)
	}
	return all
}

// listPackages runs the go command once for all tests.
var listPackages = sync.OnceValues(func() ([]listed, error) {
	out, err := exec.Command("go", "list", "-e",
		"-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports",
		"./...", "./kube/...", "./client/...", "./informer/...", "./gaplesstest/processtest/...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []listed
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read what go list prints: %w", err)
		}
		all = append(all, p)
	}
})

// inside returns a path relative to the root module, and whether it is below it.
func inside(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// entryOf returns the entry of a package: the longest path in the policy that is
// the package's own or above it.
func entryOf(pkg string) (string, bool) {
	for entry := pkg; ; {
		if _, ok := policy[entry]; ok {
			return entry, entry != "" || pkg == ""
		}
		i := strings.LastIndexByte(entry, '/')
		if i < 0 {
			return "", pkg == ""
		}
		entry = entry[:i]
	}
}

func TestImportsFollowTheArchitecture(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		pkg, _ := inside(p.ImportPath)
		entry, ok := entryOf(pkg)
		if !ok {
			t.Errorf("package %q has no entry in the import policy", pkg)
			continue
		}
		used[entry] = true
		check := func(imports []string, allowed ...string) {
			for _, path := range imports {
				dep, ours := inside(path)
				to, _ := entryOf(dep)
				if ours && to != entry && !slices.Contains(allowed, to) && !slices.Contains(allowed, everything) {
					t.Errorf("%s must not import %s", pkg, dep)
				}
			}
		}
		check(p.Imports, policy[entry]...)
		tests := append(slices.Clone(policy[entry]), inTests[entry]...)
		check(p.TestImports, tests...)
		check(p.XTestImports, tests...)
	}
	for entry := range policy {
		if !used[entry] {
			t.Errorf("entry %q of the import policy has no package", entry)
		}
	}
}

func TestProductionCodeImportsNoTestPackage(t *testing.T) {
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

// TestClientGosInformersAreNotImported: the core uses client-go to connect, never its
// informers. What stands in for them is a module of its own, informer/clientgo.
func TestClientGosInformersAreNotImported(t *testing.T) {
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

// TestTheServerDoesNotImportKubernetesItself: package features of k8s.io/kubernetes changes the
// feature gates of the process that imports it (docs/decisions/0019).
func TestTheServerDoesNotImportKubernetesItself(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...", "./gaplesstest/...").Output()
	if err != nil {
		t.Fatalf("list what the packages import: %v", err)
	}
	imported := strings.Fields(string(out))
	if !slices.Contains(imported, "k8s.io/apimachinery/pkg/runtime") {
		t.Fatalf("%d packages are not all", len(imported))
	}
	for _, path := range imported {
		if strings.HasPrefix(path, "k8s.io/kubernetes/") {
			t.Errorf("%s is imported", path)
		}
	}
}
