package gapless_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The budgets. They are a ratchet: lower them when there is room, never raise
// them silently.
const (
	maxFileLines     = 500
	maxFunctionLines = 70
	maxMethods       = 5
	maxParams        = 4 // besides ctx
	maxPackageLines  = 4500
	maxExampleLines  = 100 // of a file of a program in examples
)

// forbiddenImports says what to use instead.
var forbiddenImports = map[string]string{
	"log":                   "log/slog",
	"sort":                  "slices",
	"math/rand":             "math/rand/v2 with an explicit source",
	"io/ioutil":             "io and os",
	"github.com/pkg/errors": "errors and fmt",
}

// forbiddenCalls says what to do instead. Tests may use contexts of their own,
// and only the main function exits.
var forbiddenCalls = map[string]string{
	"time.Sleep":         "select on a timer and ctx.Done",
	"context.Background": "take ctx from the caller",
	"context.TODO":       "take ctx from the caller",
	"fmt.Print":          "write to the io.Writer that run was given",
	"fmt.Printf":         "write to the io.Writer that run was given",
	"fmt.Println":        "write to the io.Writer that run was given",
	"os.Exit":            "return an exit code; only main exits",
}

// wellKnown methods say by their names what they do.
var wellKnown = map[string]bool{
	"Error": true, "Unwrap": true, "String": true, "Len": true, "Less": true, "Swap": true,
	"Read": true, "Write": true, "ServeHTTP": true, "MarshalJSON": true, "UnmarshalJSON": true,
}

var nouns = regexp.MustCompile(`(?i)\b(one|two|three|four|five|six|seven|eight|nine)\s+nouns?\b`)

// source is one parsed Go file.
type source struct {
	pkg   string
	name  string // relative to the module
	test  bool
	lines int
	file  *ast.File
	fset  *token.FileSet
}

func (s source) at(t *testing.T, n ast.Node, format string, args ...any) {
	t.Helper()
	t.Errorf("%s:%d: "+format, append([]any{s.name, s.fset.Position(n.Pos()).Line}, args...)...)
}

// sources returns every file of these modules, also those that build tags leave
// out here. They are parsed once for all tests.
func sources(t *testing.T) []source {
	t.Helper()
	onceParsed.Do(func() { allSources = parse(t) })
	if allSources == nil {
		t.Fatal("parse the sources: it has failed in another test")
	}
	return allSources
}

var (
	onceParsed sync.Once
	allSources []source
)

func parse(t *testing.T) []source {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var all []source
	for _, p := range packages(t) {
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		pkg, _ := inside(p.ImportPath)
		for _, path := range names {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, source{
				pkg: pkg, name: filepath.ToSlash(name), test: strings.HasSuffix(path, "_test.go"),
				lines: bytes.Count(text, []byte("\n")), file: file, fset: fset,
			})
		}
	}
	return all
}

func TestFilesAndPackagesKeepTheirBudget(t *testing.T) {
	total := map[string]int{}
	for _, s := range sources(t) {
		budget := maxFileLines
		if strings.HasPrefix(s.name, "examples/") && s.file.Name.Name == "main" && !s.test {
			budget = maxExampleLines
		}
		if s.lines > budget {
			t.Errorf("%s has %d lines, more than %d", s.name, s.lines, budget)
		}
		if !s.test {
			total[s.pkg] += s.lines
		}
	}
	for pkg, lines := range total {
		if lines > maxPackageLines {
			t.Errorf("package %q has %d lines, more than %d", pkg, lines, maxPackageLines)
		}
	}
}

func TestFunctionsKeepTheirBudget(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > maxFunctionLines {
				s.at(t, f, "function %s has %d lines, more than %d", f.Name.Name, n, maxFunctionLines)
			}
			if n := params(f.Type); n > maxParams {
				s.at(t, f, "function %s has %d parameters besides ctx, more than %d", f.Name.Name, n, maxParams)
			}
			if f.Recv == nil && f.Name.Name == "init" {
				s.at(t, f, "init runs behind everybody's back: call it")
			}
		}
	}
}

// params counts the parameters of a function besides a leading context.
func params(f *ast.FuncType) int {
	n := f.Params.NumFields()
	if n > 0 {
		if sel, ok := f.Params.List[0].Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Context" {
			n--
		}
	}
	return n
}

// methods counts the methods of an interface and what it embeds; comparable, which a
// constraint may ask for, is no method.
func methods(i *ast.InterfaceType) int {
	n := i.Methods.NumFields()
	for _, f := range i.Methods.List {
		if name, ok := f.Type.(*ast.Ident); ok && name.Name == "comparable" {
			n--
		}
	}
	return n
}

func TestInterfacesKeepTheirBudget(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok && methods(i) > maxMethods {
				s.at(t, i, "interface has %d methods, more than %d", methods(i), maxMethods)
			}
			return true
		})
	}
}

func TestEveryPackageHasOneDocCommentThatCountsItsNouns(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		docs[s.pkg] = append(docs[s.pkg], "")
		if s.file.Doc != nil {
			docs[s.pkg][len(docs[s.pkg])-1] = strings.Join(strings.Fields(s.file.Doc.Text()), " ")
		}
	}
	for pkg, texts := range docs {
		texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
		if len(texts) != 1 {
			t.Errorf("package %q has %d doc comments, want one", pkg, len(texts))
		} else if !nouns.MatchString(texts[0]) {
			t.Errorf("the doc comment of package %q does not count its nouns (\"three nouns\")", pkg)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				obvious := d.Recv != nil && wellKnown[d.Name.Name]
				if d.Name.IsExported() && receiverExported(d) && d.Doc == nil && !obvious {
					s.at(t, d, "%s has no comment", d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					name, doc := described(spec)
					if ast.IsExported(name) && doc == nil && d.Doc == nil {
						s.at(t, spec, "%s has no comment", name)
					}
				}
			}
		}
	}
}

func described(spec ast.Spec) (string, *ast.CommentGroup) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Name.Name, spec.Doc
	case *ast.ValueSpec:
		if spec.Doc != nil {
			return spec.Names[0].Name, spec.Doc
		}
		return spec.Names[0].Name, spec.Comment
	}
	return "", nil
}

// receiverExported reports whether a function, or the type of its receiver, can be
// named by others.
func receiverExported(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func TestForbiddenThingsAreNotUsed(t *testing.T) {
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if instead, bad := forbiddenImports[path]; bad {
				s.at(t, spec, "imports %s: use %s", path, instead)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			name := pkg.Name + "." + sel.Sel.Name
			instead, bad := forbiddenCalls[name]
			exempt := strings.HasPrefix(name, "context.") && (s.test || s.file.Name.Name == "main") ||
				strings.HasPrefix(name, "fmt.") && s.test && strings.Contains(s.name, "/example") || // what // Output: compares
				name == "os.Exit" && s.file.Name.Name == "main" && strings.HasSuffix(s.name, "/main.go")
			if bad && !exempt {
				s.at(t, sel, "uses %s: %s", name, instead)
			}
			return true
		})
	}
}

func TestEveryPackageWithTestsChecksForLeakedGoroutines(t *testing.T) {
	guarded := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		guarded[s.pkg] = guarded[s.pkg] || callsVerifyTestMain(s.file)
	}
	for pkg, ok := range guarded {
		if !ok {
			t.Errorf("package %q has tests, but no TestMain with goleak.VerifyTestMain", pkg)
		}
	}
}

func callsVerifyTestMain(file *ast.File) bool {
	found := false
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "TestMain" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "VerifyTestMain" {
				found = true
			}
			return true
		})
	}
	return found
}
