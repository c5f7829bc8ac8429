// Package concurrent finds the packages whose tests can have a data race: those that start a goroutine, or are called
// from one of a library, or depend on a package of ours of which that is true. For the others the race detector has
// nothing to find. What a timer calls counts in the tests of its own package alone: it is what forgets something unused.
package concurrent

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// Package is what `go list -test -json` says of a package, or of the program of its tests.
type Package struct {
	ImportPath, Dir                    string
	Deps                               []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// starts reports whether a function starts goroutines, or calls functions that it is given from those of a library.
func starts(function string) bool {
	switch function {
	case "Go", "Parallel", "RunParallel", "Serve", "ServeTLS", "ListenAndServe", "ListenAndServeTLS", "NewServer",
		"NewTLSServer", "NewUnstartedServer", "NewSimpleClientset", "NewClientset", "NewInformer", "NewSharedInformer",
		"NewSharedIndexInformer", timer:
		return true
	}
	return false
}

const timer = "AfterFunc"

// Split reads what go list prints for packages below a module path with their tests, and returns the import paths of
// those whose tests can have a race, and of those whose tests cannot, sorted. It reads their files.
func Split(list io.Reader, module string) (can, cannot []string, err error) {
	packages := map[string]*Package{}
	var tests []*Package
	for in := json.NewDecoder(list); ; {
		p := &Package{}
		if err := in.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, fmt.Errorf("read the list of packages: %w", err)
		}
		if strings.HasSuffix(p.ImportPath, ".test") {
			tests = append(tests, p)
		} else if !strings.Contains(p.ImportPath, " ") { // "a [a.test]" is a with the files of its tests
			packages[p.ImportPath] = p
		}
	}
	own := map[string][]string{}
	for path, p := range packages {
		if own[path], err = starting(p.Dir, p.GoFiles); err != nil {
			return nil, nil, err
		}
	}
	for _, test := range tests {
		path := strings.TrimSuffix(test.ImportPath, ".test")
		p := packages[path]
		if p == nil {
			return nil, nil, fmt.Errorf("there are tests of %s, but no package", path)
		}
		does, err := starting(p.Dir, slices.Concat(p.TestGoFiles, p.XTestGoFiles))
		if err != nil {
			return nil, nil, err
		}
		does = append(does, own[path]...)
		for _, dep := range test.Deps {
			if dep, _, _ = strings.Cut(dep, " "); strings.HasPrefix(dep, module) && dep != path {
				does = append(does, slices.DeleteFunc(slices.Clone(own[dep]), isTimer)...)
			}
		}
		if len(does) > 0 {
			can = append(can, path)
		} else {
			cannot = append(cannot, path)
		}
	}
	slices.Sort(can)
	slices.Sort(cannot)
	return can, cannot, nil
}

func isTimer(call string) bool { return call == timer }

// starting returns what the files have that starts a goroutine, or is called from one.
func starting(dir string, names []string) (does []string, err error) {
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				does = append(does, "go")
			case *ast.CallExpr:
				if of, is := n.Fun.(*ast.SelectorExpr); is && starts(of.Sel.Name) {
					does = append(does, of.Sel.Name)
				}
			}
			return true
		})
	}
	return does, nil
}
