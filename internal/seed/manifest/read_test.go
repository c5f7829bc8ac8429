package manifest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// all decodes a text, and returns a line for each document and error.
func all(text string, o decoding) []string {
	var got []string
	for d, err := range decode(strings.NewReader(text), o) {
		if e, is := err.(*Error); is { //nolint:errorlint // it is never wrapped
			got = append(got, fmt.Sprintf("%d at %d: error: %v", e.Number, e.Line, e))
		} else {
			got = append(got, fmt.Sprintf("%d at %d: %s", d.Number, d.Line, d.JSON))
		}
	}
	return got
}

func TestFilesAreSplitIntoDocuments(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"empty":                {"", nil},
		"comments only":        {"# nothing\n---\n\n--- # still nothing\n", nil},
		"one":                  {"a: 1\n", []string{`1 at 1: {"a":1}`}},
		"without a line break": {"a: 1", []string{`1 at 1: {"a":1}`}},
		"several": {
			"---\na: 1\n---\n# x\n\nb: 2\n---\n---\nc: 3\n", []string{`1 at 2: {"a":1}`, `2 at 6: {"b":2}`, `3 at 9: {"c":3}`},
		},
		"Windows": {"\ufeffa: 1\r\n---\r\nb: 2\r\n", []string{`1 at 1: {"a":1}`, `2 at 3: {"b":2}`}},
		"ends": {
			"a: 1\n...\n# x\n---\nb: 2\n...\nc: 3\n", []string{`1 at 1: {"a":1}`, `2 at 5: {"b":2}`, `3 at 7: {"c":3}`},
		},
		"directive":            {"# x\n%YAML 1.1\n---\na: 1\n", []string{`1 at 4: {"a":1}`}},
		"beside the separator": {"--- {a: 1}\n--- {b: 2}\n", []string{`1 at 1: {"a":1}`, `2 at 2: {"b":2}`}},
		"no separators":        {"a: |\n  ---\n  x\nb: ---x\n", []string{`1 at 1: {"a":"---\nx\n","b":"---x"}`}},
		"JSON": {
			"\n{\"a\": 1}\n{\"b\":\n2}\n---\n{\"c\":3}", []string{`1 at 2: {"a": 1}`, "2 at 3: {\"b\":\n2}", `3 at 6: {"c":3}`},
		},
		"YAML that looks like": {"{a: 1,\n b: 2}\n", []string{`1 at 1: {"a":1,"b":2}`}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, all(c.text, decoding{limit: 1000})); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsNameTheLineAndTheOthersAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		json bool
		want []string // parts
	}{
		"bad indentation": {
			text: "a: 1\n---\nb: 1\n c: 2\n---\nd: 4",
			want: []string{`1 at 1: {"a":1}`, "2 at 4: error: malformed YAML: line 4:", `3 at 6: {"d":4}`},
		},
		"tab": {
			text: "a:\n\tb: 1\n",
			want: []string{"1 at 2: error: malformed YAML: line 2: found character that cannot start any token"},
		},
		"duplicate key": {
			text: "# x\na: 1\na: 2",
			want: []string{`1 at 3: error: malformed YAML: unmarshal errors: line 3: key "a" already set`},
		},
		"bad JSON": {
			text: "{\"a\": 1}\n{\"b\":\n}", json: true,
			want: []string{`1 at 1: {"a": 1}`, "2 at 3: error: malformed JSON: invalid character"},
		},
		"cut JSON": {text: "{\"a\":", json: true, want: []string{"1 at 1: error: malformed JSON: unexpected EOF"}},
		"array":    {text: "- a\n- b", want: []string{"1 at 1: error: want an object with apiVersion and kind"}},
		"text": {
			text: "hello", want: []string{`1 at 1: error: want an object with apiVersion and kind, got "\"hello\""`},
		},
		"Latin-1": {text: "a: \xe9", want: []string{"1 at 1: error: the text is not UTF-8"}},
		"too large": {
			text: "a: 1\n---\n" + strings.Repeat("b", 2000) + "\n---\nc: 3",
			want: []string{`1 at 1: {"a":1}`, "2 at 2: error: the document has more than 1000 bytes", `3 at 5: {"c":3}`},
		},
		"aliases": {
			text: "a: &x " + strings.Repeat("y", 100) + "\nb: [" + strings.Repeat("*x,", 50) + "]",
			want: []string{"1 at 1: error: malformed YAML: the object has more than 1000 bytes as JSON"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := all(c.text, decoding{limit: 1000, json: c.json})
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %d", got, len(c.want))
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("got %s, want %s", got[i], c.want[i])
				}
			}
		})
	}
	deep := strings.Repeat("[", 1001) + strings.Repeat("]", 1001)
	if got := all(`{"a":`+deep+"}", decoding{limit: 10_000}); len(got) != 1 ||
		!strings.Contains(got[0], "more than 1000 levels") {
		t.Errorf("too deep: %.100q", got)
	}
}

// TestDocumentsAreTheSameWhenReadAgain: from memory, and from the file when that holds more
// than may be kept.
func TestDocumentsAreTheSameWhenReadAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", "a: 1\n---\nb: 2\n")
	write(t, dir, "b.yaml", "c: 3\n---\n\tx\n---\nd: 4\n")
	for _, budget := range []int{0, 20, 1000} {
		f, err := Find([]string{dir})
		if err != nil {
			t.Fatalf("find: %v", err)
		}
		f.budget = budget
		var before []string
		for round := range 3 {
			var got []string
			for i := range f.Len() {
				for d, err := range f.Documents(i) {
					got = append(got, fmt.Sprintf("%d %s %v", d.Number, d.JSON, err))
				}
			}
			if len(got) != 5 || round > 0 && !cmp.Equal(before, got) {
				t.Errorf("budget %d, round %d: got %q, before %q", budget, round, got, before)
			}
			before = got
		}
		if kept := f.files[0].kept; kept != (budget > 0) {
			t.Errorf("budget %d: kept %v", budget, kept)
		}
		if f.files[1].kept || f.budget < 0 || f.budget > budget {
			t.Errorf("budget %d: %d is left, and a file with an error is kept: %v", budget, f.budget, f.files[1].kept)
		}
	}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return path
}

func TestFindReadsWhatKubectlReads(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a/c.yml", "a/d.json", "a/e.txt", ".hidden/f.yaml", "..data/g.yaml"} {
		write(t, dir, name, "a: 1")
	}
	named := write(t, dir, "manifest", "a: 1")
	for _, link := range [][2]string{{"b.yaml", "link.yaml"}, {"..data", "dir"}, {".", "a/loop"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	f, err := Find([]string{dir, filepath.Join(dir, "dir"), named, dir + "/b.yaml"})
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	var got []string
	for i := range f.Len() {
		name, err := filepath.Rel(dir, f.Name(i))
		if err != nil {
			t.Fatalf("make a path relative: %v", err)
		}
		got = append(got, filepath.ToSlash(name))
	}
	want := []string{".hidden/f.yaml", "a/c.yml", "a/d.json", "b.yaml", "link.yaml", "dir/g.yaml", "manifest"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestFindReportsAllPathsThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "empty/readme.txt", "")
	write(t, dir, "half/"+UnfinishedPrefix+"1/a.yaml", "a: 1")
	write(t, dir, "links/a.yaml", "a: 1")
	for _, link := range [][2]string{
		{"itself.yaml", "links/itself.yaml"}, {"nowhere", "links/dangling.yml"}, {"../empty", "links/dir.yaml"},
	} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	_, err := Find([]string{
		filepath.Join(dir, "none"), filepath.Join(dir, "empty"), filepath.Join(dir, "half"), filepath.Join(dir, "links"),
		os.DevNull, "",
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"there is no file or directory " + filepath.Join(dir, "none"),
		"empty contains no file with one of the extensions .json, .yaml, .yml",
		"did not finish", "itself.yaml", "dangling.yml", "dir.yaml links to a directory", "is not a regular file",
		"a path is empty",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

func FuzzDocuments(f *testing.F) {
	for _, text := range []string{
		"a: 1\n---\nb: 2", "{\"a\": 1}{\"b\": 2}", "%YAML 1.1\n---\na: &x 1\nb: *x", "--- {a: 1}\n...\nb", "\ufeffa: |\n  x\n",
		"{a: 1", "- a", "a: 1\na: 2",
	} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, asJSON bool) {
		number, line := 0, 0
		for d, err := range decode(strings.NewReader(string(text)), decoding{limit: 4096, json: asJSON}) {
			if e, is := err.(*Error); is { //nolint:errorlint // it is never wrapped
				d.Number, d.Line = e.Number, e.Line
			} else if !json.Valid(d.JSON) || d.JSON[0] != '{' {
				t.Fatalf("document %d is %q", d.Number, d.JSON)
			}
			if d.Number != number+1 || d.Line < 1 || d.Line > strings.Count(string(text), "\n")+1 {
				t.Fatalf("document %d at line %d follows %d at line %d: %v", d.Number, d.Line, number, line, err)
			}
			number, line = d.Number, d.Line
		}
	})
}
