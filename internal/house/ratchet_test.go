package house_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/internal/house/wrap"
)

// What is still to be mended, over the whole repository. Each number is a ratchet: whoever mends
// some lowers it, and nobody raises it.
const (
	maxLongLines    = 22  // of Go files; make wrap breaks what it can
	maxLongPages    = 0   // lines of pages
	maxBareErrors   = 252 // t.Fatal(err) does not say what was being done: t.Fatalf("list pods: %v", err)
	maxCountedNouns = 0   // package docs that count their nouns; see TestPackageDocsCountNoNouns
)

// ours is a file that is written by hand.
type ours struct {
	name string // relative to the root
	text []byte
	file *ast.File // nil: it is a page
	fset *token.FileSet
}

// written are the Go files and pages of all modules, without what tools write.
var written = sync.OnceValues(func() ([]ours, error) {
	names, err := findFiles(".go", ".md")
	if err != nil {
		return nil, err
	}
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	var all []ours
	for _, name := range names {
		if strings.Contains(name, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		o := ours{name: name, text: text, fset: token.NewFileSet()}
		if filepath.Ext(name) == ".go" && !generated.Match(text) {
			o.file, err = parser.ParseFile(o.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
		}
		if o.file != nil || filepath.Ext(name) == ".md" {
			all = append(all, o)
		}
	}
	return all, nil
})

// writtenFiles returns what written finds, which must be most of the repository.
func writtenFiles(t *testing.T) []ours {
	t.Helper()
	all, err := written()
	if err != nil {
		t.Fatalf("read the files of the repository: %v", err)
	}
	if len(all) < 1000 {
		t.Fatalf("only %d files were found", len(all))
	}
	return all
}

// findings are places, by file.
type findings map[string][]int

func (f findings) add(name string, line int) { f[name] = append(f[name], line) }

// atMost reports what was found if there is more than the ratchet allows.
func (f findings) atMost(t *testing.T, most int, advice string) {
	t.Helper()
	n := 0
	for _, lines := range f {
		n += len(lines)
	}
	if n < most {
		t.Logf("there are only %d: lower the number", n)
	}
	if n <= most {
		return
	}
	t.Errorf("there are %d, more than %d: %s", n, most, advice)
	names := slices.SortedFunc(maps.Keys(f), func(a, b string) int { return cmp.Compare(len(f[b]), len(f[a])) })
	for _, name := range names[:min(len(names), 40)] {
		t.Logf("%s: lines %v", name, f[name][:min(len(f[name]), 10)])
	}
}

func TestLinesKeepTheirBudget(t *testing.T) {
	code, pages := findings{}, findings{}
	for _, o := range writtenFiles(t) {
		long := code
		if o.file == nil {
			long = pages
		}
		for i, line := range strings.Split(string(o.text), "\n") {
			if wrap.TooLong(line, wrap.MaxColumns) {
				long.add(o.name, i+1)
			}
		}
	}
	code.atMost(t, maxLongLines, "break lines of more than 130 columns: tools/wrap FILE")
	pages.atMost(t, maxLongPages, "break lines of more than 130 columns")
}

// TestFailuresSayWhatWasBeingDone finds calls of Error and Fatal with nothing but an error.
func TestFailuresSayWhatWasBeingDone(t *testing.T) {
	bare := findings{}
	for _, o := range writtenFiles(t) {
		if o.file == nil {
			continue
		}
		ast.Inspect(o.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			arg, is := call.Args[0].(*ast.Ident)
			if ok && is && (fun.Sel.Name == "Error" || fun.Sel.Name == "Fatal") && arg.Name == "err" {
				bare.add(o.name, o.fset.Position(call.Pos()).Line)
			}
			return true
		})
	}
	bare.atMost(t, maxBareErrors, `say what was being done: t.Fatalf("list pods: %v", err)`)
}

// countedNouns is how package docs used to go on.
var countedNouns = regexp.MustCompile(`(?i)\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\s+nouns?\b`)

// TestPackageDocsCountNoNouns: a package doc says what the package is for, and then what a reader
// has to know, in whole sentences.
func TestPackageDocsCountNoNouns(t *testing.T) {
	counted := findings{}
	for _, o := range writtenFiles(t) {
		if o.file != nil && o.file.Doc != nil && countedNouns.MatchString(o.file.Doc.Text()) {
			counted.add(o.name, o.fset.Position(o.file.Doc.Pos()).Line)
		}
	}
	counted.atMost(t, maxCountedNouns, "begin with what the package is for, and do not count")
}

var (
	// citedFile is the name of a file in a comment.
	citedFile = regexp.MustCompile(`[\w./*-]*\w\.(?:go|md)\b`)
	// citedProject is what a comment says that cites a file of another project.
	citedProject = regexp.MustCompile(`(?i)upstream|kubernetes|apiserver|apimachinery|apiextensions|client-go|` +
		`cert-manager|cel-go|client_golang|golang\.org|k8s\.io|\bx/net/|\bpkg/`)
)

// TestCommentsCiteFilesThatExist: a file that a comment names is in this repository, relative to
// its root or beside the comment; or it is a Go file of another project, which the comment names.
// A path that begins with pkg/ is one of Kubernetes.
func TestCommentsCiteFilesThatExist(t *testing.T) {
	cited := 0
	for _, o := range writtenFiles(t) {
		if o.file == nil {
			continue
		}
		for _, group := range o.file.Comments {
			text := group.Text()
			if !strings.Contains(text, ".go") && !strings.Contains(text, ".md") {
				continue
			}
			for _, name := range citedFile.FindAllString(text, -1) {
				cited++
				if exists(name) || exists(path.Join(path.Dir(o.name), name)) ||
					strings.HasSuffix(name, ".go") && citedProject.MatchString(text) {
					continue
				}
				t.Errorf("%s:%d: a comment cites %s, which is not in the repository",
					o.name, o.fset.Position(group.Pos()).Line, name)
			}
		}
	}
	if cited < 100 {
		t.Errorf("only %d citations were found", cited)
	}
}

// exists reports whether a pattern of path.Match fits a file.
func exists(pattern string) bool {
	found, err := filepath.Glob(pattern)
	return err == nil && len(found) > 0
}

// TestPatternsOfCitationsFindThem: the rule would not hold if its patterns matched nothing.
func TestPatternsOfCitationsFindThem(t *testing.T) {
	for text, want := range map[string]string{
		"3 s: spec/storage.md section 9": "spec/storage.md",
		"as style.md says.":              "style.md",
		"see docs/traps.md, and more":    "docs/traps.md",
		"apiserver cacher/cacher.go":     "cacher/cacher.go",
	} {
		if got := citedFile.FindString(text); got != want {
			t.Errorf("%q cites %q, want %q", text, got, want)
		}
	}
	if text := "a table of clients.md 1.2"; citedProject.MatchString(text) {
		t.Errorf("%q names no project", text)
	}
}
