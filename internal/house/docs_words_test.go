package house_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// publicDirs are the trees with packages that other programs import.
var publicDirs = []string{".", "kube", "client", "informer", "fault"}

// internalPath finds a path of an internal package in a text.
var internalPath = regexp.MustCompile(`\binternal/[a-z]\w*`)

// TestExportedDocsNameNoInternalPackage: what go doc shows of a public package, its
// comments and its declarations, names no package below internal.
func TestExportedDocsNameNoInternalPackage(t *testing.T) {
	files := goFiles(t)
	internal := map[string]bool{} // package.Name of every exported name of an internal package
	public := map[string][]string{}
	for _, name := range files {
		dir := path.Dir(name)
		switch {
		case strings.HasSuffix(name, "_test.go"):
		case slices.Contains(strings.Split(dir, "/"), "internal"):
			file := parseFile(t, token.NewFileSet(), name)
			for declared := range exportedNames(file) {
				internal[file.Name.Name+"."+declared] = true
			}
		case dir == "." ||
			slices.ContainsFunc(publicDirs, func(p string) bool { return dir == p || strings.HasPrefix(dir, p+"/") }):
			public[dir] = append(public[dir], name)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(public)) {
		checkExportedDocs(t, dir, public[dir], internal)
	}
	if len(public) < 5 || len(internal) < 100 {
		t.Errorf("only %d public packages and %d internal names were found", len(public), len(internal))
	}
}

// checkExportedDocs reports the internal names in the exported docs of one package.
func checkExportedDocs(t *testing.T, dir string, names []string, internal map[string]bool) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	imported := map[string]bool{} // local name -> it is an internal package
	for _, name := range names {
		file := parseFile(t, fset, name)
		if file.Name.Name == "main" {
			return
		}
		files = append(files, file)
		for _, spec := range file.Imports {
			of, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("unquote a string: %v", err)
			}
			local := path.Base(of)
			if spec.Name != nil {
				local = spec.Name.Name
			}
			rest, ours := inside(of)
			imported[local] = imported[local] || ours && slices.Contains(strings.Split(rest, "/"), "internal")
		}
	}
	pkg, err := doc.NewFromFiles(fset, files, path.Join(module, dir))
	if err != nil {
		t.Fatalf("read the keys: %v", err)
	}
	checkText := func(where, text string) {
		if found := internalPath.FindString(text); found != "" {
			t.Errorf("%s: the docs name %s", where, found)
		}
		for _, found := range selector.FindAllString(text, -1) {
			name, _, _ := strings.Cut(found, ".")
			if known, ok := imported[name]; internal[found] && (known || !ok) {
				t.Errorf("%s: the docs name %s", where, found)
			}
		}
	}
	checkText("package "+dir, pkg.Doc)
	for _, s := range shown(pkg) {
		checkText(fset.Position(s.decl.Pos()).String(), s.doc)
		ast.Inspect(s.decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CommentGroup:
				checkText(fset.Position(n.Pos()).String(), n.Text())
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && imported[x.Name] {
					t.Errorf("%s: the declaration names %s.%s", fset.Position(n.Pos()), x.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// selector finds what may be a name of a package in a text.
var selector = regexp.MustCompile(`\b[a-z][a-z0-9]*\.[A-Z]\w*`)

// documented is a declaration that go doc shows, with the comment that go/doc took
// from it.
type documented struct {
	decl ast.Decl
	doc  string
}

// shown returns the declarations that go doc shows of a package.
func shown(pkg *doc.Package) []documented {
	var all []documented
	values := func(of []*doc.Value) {
		for _, v := range of {
			all = append(all, documented{v.Decl, v.Doc})
		}
	}
	funcs := func(of []*doc.Func) {
		for _, f := range of {
			all = append(all, documented{f.Decl, f.Doc})
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	funcs(pkg.Funcs)
	for _, typ := range pkg.Types {
		all = append(all, documented{typ.Decl, typ.Doc})
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	return all
}

// exportedNames yields the exported names that a file declares at its top level.
func exportedNames(file *ast.File) map[string]bool {
	names := map[string]bool{}
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names[id.Name] = true
			}
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				add(decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name)
				case *ast.ValueSpec:
					add(spec.Names...)
				}
			}
		}
	}
	return names
}

func parseFile(t *testing.T, fset *token.FileSet, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse a file: %v", err)
	}
	return file
}

// goFiles returns every Go file of the repository, of all its modules.
func goFiles(t *testing.T) []string {
	t.Helper()
	return filesWith(t, ".go")
}

// filesWith returns the files with one of these extensions, relative to the root.
func filesWith(t *testing.T, extensions ...string) []string {
	t.Helper()
	all, err := findFiles(extensions...)
	if err != nil {
		t.Fatalf("look for files: %v", err)
	}
	return all
}

// findFiles is filesWith without a test.
func findFiles(extensions ...string) ([]string, error) {
	var all []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "target"):
			return fs.SkipDir
		case !d.IsDir() && slices.Contains(extensions, filepath.Ext(name)):
			all = append(all, name)
		}
		return nil
	})
	return all, err
}

// dialect lists words that are not Kubernetes' or Go's, with what to write instead. All
// that matches a pattern contains its stem, in lower case: most lines are not looked at
// further.
var dialect = []struct{ stem, pattern, instead string }{
	{"weather", `(?i)\bweathers?\b`, "failures, under failures"},
	{"whom", `(?i)\bwhom\b`, "an active sentence: the waiters that e matches"},
	{"painter", `(?i)\bpainters?\b`, "renderer"},
	{"told", `\w*Told\w*`, "Delivered, Reported, Gets …"},
	{"told", `(?i)\b(is|are|was|were|be|been|being) (never |not )?told\b`, "gets, receives, reports"},
	{"trouble", `\w*Trouble\w*`, "Failure"},
	{"course", `\bcourse\.[A-Z]\w*|(?i)\bthe same course\b`, "transition; the same scenario"},
	{"hand", `(?i)\bhand(s|ed|ing)? over\b`, "passes, delivers"},
	{"without a word", `(?i)\bwithout a word\b`, "without an event, silently"},
	{"tak", `(?i)\btak(es?|ing) out\b|\btaken out\b`, "removes"},
	{"once more", `(?i)\bonce more\b`, "again"},
	{"somebody else", `(?i)\bof somebody else('s)?\b|\bsomebody else's\b`, "of another user, of another program"},
	{"door", `(?i)\bthe doors?\b|\bbehind the door\b`, "HTTP, the API server"},
	{"room", `(?i)\brooms\b|\bthe room that\b`, "packages"},
}

// dialectMayStay names the files in which such a word is right, with the reason.
var dialectMayStay = map[string]string{
	"internal/house/docs_words_test.go": "it lists the words",
}

// TestDocsAndCodeSpeakTheFieldsLanguage keeps words out that a reader would have to
// learn. Words that are ours are in ARCHITECTURE.md's glossary.
func TestDocsAndCodeSpeakTheFieldsLanguage(t *testing.T) {
	patterns := make([]*regexp.Regexp, len(dialect))
	for i, d := range dialect {
		patterns[i] = regexp.MustCompile(d.pattern)
	}
	names := filesWith(t, ".go", ".md")
	for _, name := range names {
		if dialectMayStay[name] != "" || strings.Contains(name, "/testdata/") {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		lines := strings.Split(string(content), "\n")
		folded := strings.Split(strings.ToLower(string(content)), "\n")
		for i, p := range patterns {
			for n, line := range lines {
				if !strings.Contains(folded[n], dialect[i].stem) {
					continue
				}
				if found := p.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: write %s", name, n+1, found, dialect[i].instead)
				}
			}
		}
	}
	for name := range dialectMayStay {
		if !slices.Contains(names, name) {
			t.Errorf("the exception %s is not a file", name)
		}
	}
	if len(names) < 500 {
		t.Errorf("only %d files were found", len(names))
	}
}
