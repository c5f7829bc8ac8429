package house_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of the pages anew")

const (
	policyBegin = "<!-- begin: written by go test ./internal/house -run TestArchitectureShowsTheImportPolicy -update -->\n"
	pageEnd     = "<!-- end -->\n"
	pageColumns = 120 // of what is generated
)

// TestArchitectureShowsTheImportPolicy compares the list in ARCHITECTURE.md with the policy
// that TestImportsFollowTheArchitecture enforces, or writes it.
func TestArchitectureShowsTheImportPolicy(t *testing.T) {
	var server, library []string
	for _, entry := range slices.Sorted(maps.Keys(policy)) {
		if strings.HasPrefix(entry, "informer") {
			library = append(library, entry)
		} else {
			server = append(server, entry)
		}
	}
	generated(t, "ARCHITECTURE.md", policyBegin, policyList(server, "internal/")+policyList(library, "informer/internal/"))
}

// policyList is a block with a line for each entry, from which a prefix is left out.
func policyList(entries []string, prefix string) string {
	short := func(path string) string {
		return cmp.Or(strings.TrimPrefix(path, prefix), "gapless")
	}
	widest := 0
	for _, entry := range entries {
		widest = max(widest, len(short(entry)))
	}
	var b strings.Builder
	b.WriteString("```\n")
	for _, entry := range entries {
		line := fmt.Sprintf("%-*s ", widest, short(entry))
		indent := len(line)
		for _, may := range policy[entry] {
			if len(line)+1+len(short(may)) > pageColumns {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", indent)
			}
			line += " " + short(may)
		}
		if len(policy[entry]) == 0 {
			line += " –"
		}
		b.WriteString(line + "\n")
	}
	b.WriteString("```\n")
	return b.String()
}

// generated compares the part of a page behind a mark with what it should be, or writes it.
func generated(t *testing.T, page, begin, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatalf("read the page: %v", err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	was, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		t.Fatalf("%s has no marks around %q", page, strings.TrimSpace(begin))
	}
	switch {
	case was == want:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+want+pageEnd+after), 0o644); err != nil { //nolint:gosec // a page is for everybody
			t.Fatalf("write the page: %v", err)
		}
	default:
		t.Errorf("a generated part of %s is old: run go test ./internal/house -run %s -update", page, t.Name())
	}
}
