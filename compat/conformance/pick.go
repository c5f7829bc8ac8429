package conformance

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// informerTests keeps of the sources of a package's tests what tests of informers need,
// without the declarations that a shim has instead. Lines keep their numbers: what
// goes is blanked out. It returns the sources by name, and the tests that are left.
func informerTests(sources map[string][]byte, shim map[string]bool) (kept map[string][]byte, tests []string, err error) {
	p := picker{files: token.NewFileSet(), shim: shim, uses: map[string][]string{}, keep: map[string]bool{}}
	parsed := map[string]*ast.File{}
	for name, source := range sources {
		f, err := parser.ParseFile(p.files, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, fmt.Errorf("parse %s: %w", name, err)
		}
		parsed[name] = f
		for _, d := range f.Decls {
			for _, name := range names(d) {
				p.uses[name] = append(p.uses[name], identifiers(d)...)
			}
		}
	}
	for name := range p.uses {
		switch {
		case name == "TestMain":
			p.reach(name)
		case isTest.MatchString(name) && p.makesInformer(name, map[string]bool{}):
			p.reach(name)
			tests = append(tests, name)
		}
	}
	kept = map[string][]byte{}
	for name, f := range parsed {
		kept[name] = p.blank(f, sources[name])
	}
	return kept, tests, nil
}

var (
	isTest      = regexp.MustCompile(`^(Test|Example)`)
	constructor = regexp.MustCompile(`^New\w*Informer(WithOptions)?$`)
)

// picker knows the declarations of a package, by name; those of methods count as their
// type's.
type picker struct {
	files *token.FileSet
	shim  map[string]bool
	uses  map[string][]string
	keep  map[string]bool
}

func (p picker) makesInformer(name string, seen map[string]bool) bool {
	if constructor.MatchString(name) {
		return true
	}
	if seen[name] || p.shim[name] {
		return false
	}
	seen[name] = true
	for _, used := range p.uses[name] {
		if p.makesInformer(used, seen) {
			return true
		}
	}
	return false
}

func (p picker) reach(name string) {
	if _, declared := p.uses[name]; !declared || p.keep[name] || p.shim[name] {
		return
	}
	p.keep[name] = true
	for _, used := range p.uses[name] {
		p.reach(used)
	}
}

// blank makes spaces of the declarations that are not kept, and of the imports that
// the others do not use.
func (p picker) blank(f *ast.File, source []byte) []byte {
	out := bytes.Clone(source)
	used := map[string]bool{}
	var imports []*ast.GenDecl
	for _, d := range f.Decls {
		if g, is := d.(*ast.GenDecl); is && g.Tok == token.IMPORT {
			imports = append(imports, g)
			continue
		}
		if !p.kept(d) {
			p.erase(out, d)
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is {
				if x, is := s.X.(*ast.Ident); is {
					used[x.Name] = true
				}
			}
			return true
		})
	}
	for _, g := range imports {
		for _, s := range g.Specs {
			if i := s.(*ast.ImportSpec); !used[importName(i)] {
				p.erase(out, i)
			}
		}
	}
	return out
}

func (p picker) kept(d ast.Decl) bool {
	for _, name := range names(d) {
		if p.keep[name] {
			return true
		}
	}
	return false
}

func (p picker) erase(out []byte, n ast.Node) {
	for i := p.files.Position(n.Pos()).Offset; i < p.files.Position(n.End()).Offset; i++ {
		if out[i] != '\n' {
			out[i] = ' '
		}
	}
}

// names are those that a declaration declares; of a method, its type's.
func names(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		return identifiers(d.Recv.List[0].Type)
	case *ast.GenDecl:
		var all []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				all = append(all, s.Name.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.Name != "_" {
						all = append(all, name.Name)
					}
				}
			}
		}
		return all
	}
	return nil
}

func identifiers(n ast.Node) []string {
	var all []string
	ast.Inspect(n, func(n ast.Node) bool {
		if i, is := n.(*ast.Ident); is {
			all = append(all, i.Name)
		}
		return true
	})
	return all
}

var majorVersion = regexp.MustCompile(`^v\d+$`)

// importName is the name that an import has in its file.
func importName(i *ast.ImportSpec) string {
	if i.Name != nil {
		return i.Name.Name
	}
	at, err := strconv.Unquote(i.Path.Value)
	if err != nil {
		return ""
	}
	if majorVersion.MatchString(path.Base(at)) {
		at = path.Dir(at)
	}
	return strings.TrimPrefix(path.Base(at), "go-")
}
