package builtin

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Judge holds what a test has found against a file of testdata, whose lines are "class | what |
// why": what is not in the file, and what is there and was not found, fails the test. The keys of
// found are "class | what", its values examples.
func Judge(t testing.TB, file string, found map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(strings.TrimSpace(line), " | ")
		switch {
		case strings.HasPrefix(line, "#") || len(parts) == 1 && parts[0] == "":
		case len(parts) != 3 || parts[2] == "":
			t.Errorf("%s: %q is not \"class | what | why\"", file, line)
		default:
			known[parts[0]+" | "+parts[1]] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if !known[key] {
			t.Errorf("%s: %s", key, found[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		if found[key] == "" {
			t.Errorf("%s: %s has it, and it is not found any more: remove the line", key, file)
		}
	}
}
