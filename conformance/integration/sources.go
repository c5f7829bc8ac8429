package integration

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Where the packages of upstream's tests are, and where they are compiled.
const (
	theirs = "k8s.io/kubernetes/test/integration"
	ours   = "github.com/gapless-io/gapless/conformance/apiserver/program/integration"
)

// renamed are upstream's packages that are replaced, or compiled with what replaces others.
func renamed() *strings.Replacer {
	return strings.NewReplacer(
		`"k8s.io/kubernetes/cmd/kube-apiserver/app/testing"`, `"`+ours+`/testserver"`,
		`"`+theirs+`/framework"`, `"`+ours+`/framework"`,
		`"`+theirs+`/etcd"`, `"`+ours+`/etcd"`,
		`"`+theirs+`"`, `"`+ours+`"`,
		// The etcd is there.
		"func TestMain(", "func testMain(",
		// The program's own authorizer is to decide.
		"= newRBACAuthorizer(t, config)", "= framework.OwnRBAC(config)",
	)
}

// overlay makes a program of upstream's tests without keeping them: it is the file for go's -overlay that adds them to
// the module in root.
type overlay struct {
	dir, root string
	replace   map[string]string
	calls     map[string][]string // names of tests by suite
}

// newOverlay writes upstream's sources below from into dir.
func newOverlay(dir, root, from string) (*overlay, error) {
	o := &overlay{dir: dir, root: root, replace: map[string]string{}, calls: map[string][]string{}}
	for to, files := range map[string][]string{
		"":     {"utils.go"},
		"etcd": {"etcd/data.go", "etcd/server.go"},
		"framework": {
			"framework/cbor.go", "framework/controlplane_utils.go", "framework/flags.go", "framework/goleak.go",
			"framework/logger.go", "framework/serializer.go", "framework/util.go",
		},
	} {
		for _, file := range files {
			if err := o.add(filepath.Join(from, file), filepath.Join("integration", to, filepath.Base(file))); err != nil {
				return nil, err
			}
		}
	}
	for _, suite := range suites(false) {
		if err := o.addSuite(from, suite); err != nil {
			return nil, err
		}
	}
	return o, o.addCalls()
}

// addSuite adds the tests of a package as one that others can call.
func (o *overlay) addSuite(from, suite string) error {
	files, err := filepath.Glob(filepath.Join(from, suite, "*.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no files of %s in %s", suite, from)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".go") + "s.go" // which go does not take for tests
		if err := o.add(file, filepath.Join("integration/suites", suite, name)); err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range parsed.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") &&
				f.Name.Name != "TestMain" && isTest(f.Type) {
				o.calls[suite] = append(o.calls[suite], f.Name.Name)
			}
		}
	}
	return nil
}

// isTest reports whether a function takes one *testing.T only.
func isTest(of *ast.FuncType) bool {
	if of.Params.NumFields() != 1 || of.Results.NumFields() != 0 {
		return false
	}
	star, is := of.Params.List[0].Type.(*ast.StarExpr)
	if !is {
		return false
	}
	selector, is := star.X.(*ast.SelectorExpr)
	return is && selector.Sel.Name == "T"
}

// add writes a file of upstream's with the imports replaced.
func (o *overlay) add(source, to string) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return o.write(to, renamed().Replace(string(text)))
}

func (o *overlay) write(to, text string) error {
	at := filepath.Join(o.dir, strings.ReplaceAll(to, "/", "-"))
	o.replace[filepath.Join(o.root, to)] = at
	return os.WriteFile(at, []byte(text), 0o600)
}

// addCalls adds the test that calls all tests, each as a subtest with the name of its suite and its own.
func (o *overlay) addCalls() error {
	var imports, calls strings.Builder
	for i, suite := range slices.Sorted(maps.Keys(o.calls)) {
		fmt.Fprintf(&imports, "\ts%d %q\n", i, path.Join(ours, "suites", suite))
		for _, name := range o.calls[suite] {
			fmt.Fprintf(&calls, "\tt.Run(%q, s%d.%s)\n", flat(suite)+"."+name, i, name)
		}
	}
	return o.write("integration/suites/all_test.go", fmt.Sprintf(
		"package suites\n\nimport (\n\t\"testing\"\n\n%s)\n\nfunc TestUpstream(t *testing.T) {\n%s}\n", &imports, &calls))
}

// flat is a suite's name without slashes, which separate subtests.
func flat(suite string) string { return strings.ReplaceAll(suite, "/", "-") }

// file writes the file for go's -overlay, and returns it.
func (o *overlay) file() (string, error) {
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(o.dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
