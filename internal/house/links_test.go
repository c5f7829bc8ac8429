package house_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var (
	pageLink    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	pageCode    = regexp.MustCompile("`([^`\n]+)`")
	pageFence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	pageHeading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	repoPath    = regexp.MustCompile(`^\w[\w.-]*(/[\w.*-]+)+/?$`)
	testOrBench = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	fileName    = regexp.MustCompile(`\b[a-z]\w*\.go\b`)
	nameOfTest  = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
)

// notOurs are names in pages that only look like the repository's.
var notOurs = map[string]string{
	"tools/cache":                  "a package of client-go",
	"internal/controllers/machine": "a suite of cluster-api",
	"fault/action_NAME.go":         "a file that a reader makes",
	"TestName":                     "any test",
	"evaluation_helpers.go":        "a file of Kubernetes",
}

// longestLine is how many columns a line of a page may have.
const longestLine = 130

// TestLinksOfPagesWork: what a page links to exists, with the heading behind the #.
func TestLinksOfPagesWork(t *testing.T) {
	links := 0
	for _, name := range filesWith(t, ".md") {
		text := pageCode.ReplaceAllString(pageFence.ReplaceAllString(readPage(t, name), ""), "code")
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
				continue
			}
			if anchor != "" && !anchors(readPage(t, file))[anchor] {
				t.Errorf("%s links to %s: no heading is called so", name, m[1])
			}
		}
	}
	if links < 120 {
		t.Errorf("only %d links were found", links)
	}
}

// anchors are the names of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range pageHeading.FindAllStringSubmatch(pageFence.ReplaceAllString(text, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		all[anchor] = true
	}
	return all
}

// TestPathsAndTestsInPagesExist: what stands in code style in a page and looks like a path of the
// repository, or like a test's name, exists.
func TestPathsAndTestsInPagesExist(t *testing.T) {
	tests := map[string]bool{}
	for _, name := range filesWith(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range testOrBench.FindAllStringSubmatch(readPage(t, name), -1) {
				tests[m[1]] = true
			}
		}
	}
	paths, named := 0, 0
	for _, name := range filesWith(t, ".md") {
		for _, m := range pageCode.FindAllStringSubmatch(pageFence.ReplaceAllString(readPage(t, name), ""), -1) {
			code := m[1]
			if test, _, _ := strings.Cut(code, "/"); nameOfTest.MatchString(test) && notOurs[test] == "" {
				named++
				if !tests[test] && !strings.HasPrefix(name, "MIGRATING") { // which names client-go's
					t.Errorf("%s names %s, which no file of tests has", name, test)
				}
			}
			first, _, _ := strings.Cut(code, "/")
			if info, err := os.Stat(first); err != nil || !info.IsDir() || !repoPath.MatchString(code) || notOurs[code] != "" {
				continue
			}
			paths++
			if found, err := filepath.Glob(code); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which is not there", name, code)
			}
		}
	}
	if paths < 60 || named < 150 {
		t.Errorf("only %d paths and %d tests were found", paths, named)
	}
}

// TestFilesInPackageDocsExist: package docs say which file has what.
func TestFilesInPackageDocsExist(t *testing.T) {
	exists := map[string]bool{}
	for _, name := range filesWith(t, ".go") {
		exists[path.Base(name)] = true
	}
	named := 0
	for _, s := range sources(t) {
		for _, file := range fileName.FindAllString(s.file.Doc.Text(), -1) {
			named++
			if !exists[file] && notOurs[file] == "" {
				t.Errorf("%s: the package's doc names %s, and no file is called so", s.name, file)
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d files are named", named)
	}
}

func TestLinesOfPagesAreShort(t *testing.T) {
	for _, name := range filesWith(t, ".md") {
		n := 0
		for line := range strings.Lines(readPage(t, name)) {
			n++
			if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > longestLine {
				t.Errorf("%s:%d has %d columns, more than %d", name, n, columns, longestLine)
			}
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return string(text)
}
