package upstream_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/conformance/upstream"
)

// tinyWindow is so small that nearly every watch and exact read goes to the log.
const tinyWindow = 2

// engines are what every suite runs against.
func engines() map[string]func(t *testing.T) upstream.Config {
	return map[string]func(t *testing.T) upstream.Config{
		"memory": func(*testing.T) upstream.Config { return upstream.Config{} },
		"disk":   func(t *testing.T) upstream.Config { return upstream.Config{Dir: t.TempDir()} },
		"history": func(t *testing.T) upstream.Config {
			return upstream.Config{Dir: t.TempDir(), Window: tinyWindow}
		},
		"etcd": func(t *testing.T) upstream.Config {
			member := etcd.StartFor(t, etcd.Options{NoSync: true})
			return upstream.Config{Dir: t.TempDir(), Etcd: member.URL(), Window: tinyWindow}
		},
	}
}

func suites() map[string]suite {
	all := writes()
	maps.Copy(all, reads())
	maps.Copy(all, watches())
	return all
}

func TestUpstream(t *testing.T) {
	table := &table{results: map[string][]string{}}
	t.Cleanup(func() { t.Logf("what upstream's suites say\n%s", table) })
	for _, name := range slices.Sorted(maps.Keys(suites())) {
		s := suites()[name]
		for _, engine := range slices.Sorted(maps.Keys(engines())) {
			if engine == "etcd" && s.notOverEtcd != "" {
				continue
			}
			t.Run(name+"/"+engine, func(t *testing.T) {
				if !s.alone {
					t.Parallel()
				}
				t.Cleanup(func() { table.add(name, engine, t.Failed()) })
				s.run(t.Context(), t, open(t, engines()[engine](t)))
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(skipped())) {
		t.Run(name, func(t *testing.T) { t.Skip(skipped()[name]) })
	}
}

// table is what is printed at the end.
type table struct {
	// mu guards results: by suite, "memory: pass".
	mu      sync.Mutex
	results map[string][]string
}

func (o *table) add(name, engine string, failed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	verdict := "pass"
	if failed {
		verdict = "FAIL"
	}
	o.results[name] = append(o.results[name], engine+": "+verdict)
}

// String has a line for each suite, and one for each case that deviates.
func (o *table) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.results)) {
		slices.Sort(o.results[name])
		fmt.Fprintf(&b, "%-60s %s", name, strings.Join(o.results[name], ", "))
		if note := suites()[name].note; note != "" {
			fmt.Fprintf(&b, " (%s)", note)
		}
		if reason := suites()[name].notOverEtcd; reason != "" {
			fmt.Fprintf(&b, " (not over etcd: %s)", reason)
		}
		b.WriteByte('\n')
	}
	for _, d := range deviations() {
		fmt.Fprintf(&b, "%-60s %s\n", d.suite+" / "+d.name, "better: "+d.reason)
	}
	for _, name := range slices.Sorted(maps.Keys(skipped())) {
		fmt.Fprintf(&b, "%-60s %s\n", name, "skip: "+skipped()[name])
	}
	return b.String()
}

// A test that a newer upstream brings is noticed here.
func TestEveryTestOfUpstreamIsRunOrSkippedWithAReason(t *testing.T) {
	var known []string
	for name := range suites() {
		known = append(known, name)
	}
	for name, reason := range skipped() {
		if _, runs := suites()[name]; runs || reason == "" {
			t.Errorf("%s is run and skipped, or skipped without a reason", name)
		}
		known = append(known, name)
	}
	slices.Sort(known)
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage/testing").Output()
	if err != nil {
		t.Fatalf("find the package of the suites: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files of the suites: %v %v", files, err)
	}
	var exported []string
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			exported = append(exported, runners(t, file)...)
		}
	}
	slices.Sort(exported)
	if diff := cmp.Diff(exported, known); diff != "" {
		t.Errorf("what upstream has (-), and what the tables have (+):\n%s", diff)
	}
}

// runners are the functions of a file that run a test.
func runners(t *testing.T, file string) []string {
	t.Helper()
	var names []string
	for _, d := range parse(t, file).Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return parsed
}

func TestEverySuiteRunsTheUpstreamTestOfItsName(t *testing.T) {
	checked := 0
	ast.Inspect(parse(t, "suites_test.go"), func(n ast.Node) bool {
		entry, is := n.(*ast.KeyValueExpr)
		if !is {
			return true
		}
		key, is := entry.Key.(*ast.BasicLit)
		if !is {
			return true
		}
		name := strings.Trim(key.Value, `"`)
		var called []string
		ast.Inspect(entry.Value, func(n ast.Node) bool {
			if sel, is := n.(*ast.SelectorExpr); is && strings.HasPrefix(sel.Sel.Name, "Run") {
				called = append(called, sel.Sel.Name)
			}
			return true
		})
		if !slices.Equal(called, []string{name}) {
			t.Errorf("%s calls %v", name, called)
		}
		checked++
		return false
	})
	if checked != len(suites()) {
		t.Errorf("%d entries of %d were found", checked, len(suites()))
	}
}
