package informer_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// The tests in traps_*_test.go show, one by one, what the informer
// does where other clients' users fall into a trap, or where no other client does
// anything. docs/traps.md lists them, together with those that stand elsewhere.

// scripted returns an informer that reads a listwatchtest.Script.
func scripted(s listwatchtest.Script, opts ...informer.Option) *informer.Informer[*thing] {
	return informer.New(informer.From("things", backend(s), informer.JSON[*thing]()), opts...)
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

var (
	testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+)(?:/([^`]+))?`")
	trapItem = regexp.MustCompile(`(?m)^- (?:.+\n)(?:  .+\n)*`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
)

// TestTrapsAreTested compares the test names in docs/traps.md with the tests: each one
// exists, and the page names all tests of the traps_*_test.go files.
func TestTrapsAreTested(t *testing.T) {
	files, err := testFiles("..")
	if err != nil {
		t.Fatalf("look for test files: %v", err)
	}
	where := map[string]string{} // test -> the texts of the files that have one of that name
	here := map[string]bool{}    // those that the page has to name
	for path, text := range files {
		base := filepath.Base(path)
		for _, f := range testFunc.FindAllStringSubmatch(text, -1) {
			where[f[1]] += text
			if strings.HasPrefix(base, "traps") || strings.HasPrefix(base, "nobody") || strings.HasPrefix(base, "e2e_traps") {
				here[f[1]] = true
			}
		}
	}
	page, err := os.ReadFile("../docs/traps.md")
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	rows := 0
	for _, item := range trapItem.FindAllString(string(page), -1) {
		rows++
		item = strings.Join(strings.Fields(item), " ")
		_, ours, found := strings.Cut(item, " → ")
		if !found {
			t.Errorf("it does not say what client-go does → what happens here: %s", item)
			continue
		}
		named := testName.FindAllStringSubmatch(ours, -1)
		if len(named) == 0 && !strings.Contains(ours, "**not done**") {
			t.Errorf("no test: %s", item)
		}
		for _, name := range named {
			delete(here, name[1])
			switch text := where[name[1]]; {
			case text == "":
				t.Errorf("there is no test %s: %s", name[1], item)
			case name[2] != "" && !strings.Contains(text, `"`+name[2]+`"`):
				t.Errorf("%s has no case %q: %s", name[1], name[2], item)
			}
		}
	}
	if rows < 95 {
		t.Errorf("only %d traps were found", rows)
	}
	delete(here, "TestTrapsAreTested")
	for name := range here {
		t.Errorf("docs/traps.md does not name %s", name)
	}
}

// testFiles are the texts of all test files below a directory, by path.
func testFiles(root string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	return all, err
}
