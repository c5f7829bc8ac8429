package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// step is a row of a walk in ARCHITECTURE.md: a number, a package, files with functions.
var (
	walkStep = regexp.MustCompile(`(?m)^\| \d+ \| ([\w/]+) \| ([^|]+) \|`)
	walkFile = regexp.MustCompile("`(\\w+\\.go)`: ((?:`\\w+`(?:, )?)+)")
	walkFunc = regexp.MustCompile("`(\\w+)`")
)

func TestWalksOfTheArchitectureNameFunctionsThatExist(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	steps := walkStep.FindAllStringSubmatch(string(page), -1)
	if len(steps) < 20 {
		t.Fatalf("found only %d steps of walks", len(steps))
	}
	for _, step := range steps {
		files := walkFile.FindAllStringSubmatch(step[2], -1)
		if len(files) == 0 {
			t.Errorf("%s: no file with functions in %q", step[1], step[2])
		}
		for _, file := range files {
			path := filepath.Join(filepath.FromSlash(step[1]), file[1])
			exist := functionsOf(t, path)
			for _, f := range walkFunc.FindAllStringSubmatch(file[2], -1) {
				if !exist[f[1]] {
					t.Errorf("%s has no function %s", path, f[1])
				}
			}
		}
	}
}

// functionsOf returns the names of the functions and methods of a file.
func functionsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Errorf("ARCHITECTURE.md: %s", strings.TrimSpace(err.Error()))
		return nil
	}
	names := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
		}
	}
	return names
}
