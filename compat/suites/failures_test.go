package suites

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a reason may begin with.
const (
	unexplained = "unexplained: " // not examined yet
	sometimes   = "sometimes: "   // it is a matter of time, so that the test may pass as well
)

// list has the listed failures of a side: reasons by suite and test.
type list map[string]map[string]string

func listFile(side string) string { return filepath.Join("testdata", "failures", side+".txt") }

// readList reads a side's list: a line with a reason, below it and indented the tests that fail for
// it, each as `suite: test`.
func readList(t *testing.T, side string) list {
	t.Helper()
	text, err := os.ReadFile(listFile(side))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	listed, reason := list{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		name := strings.TrimSpace(line)
		suite, test, is := strings.Cut(name, ": ")
		switch {
		case name == "" || strings.HasPrefix(line, "#"):
		case name == line:
			reason = name
		case reason == "" || !is:
			t.Fatalf("%s: no reason or no suite: %q", listFile(side), line)
		default:
			if listed[suite] == nil {
				listed[suite] = map[string]string{}
			}
			listed[suite][test] = reason
		}
	}
	return listed
}

// writeList is the reverse.
func writeList(t *testing.T, side string, listed list) {
	t.Helper()
	by := map[string][]string{}
	for suite, tests := range listed {
		for test, reason := range tests {
			by[reason] = append(by[reason], suite+": "+test)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"# What fails on %s, and why: the reason, then `suite: test`. `go test -all -update` removes\n# what passes, and adds "+
			"what fails as %q until the reason is added.\n", side, strings.TrimSpace(unexplained))
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, "\n%s\n", reason)
		slices.Sort(by[reason])
		for _, name := range by[reason] {
			fmt.Fprintf(&b, "    %s\n", name)
		}
	}
	if err := os.WriteFile(listFile(side), []byte(b.String()), 0o644); err != nil {
		t.Fatalf("write a file: %v", err)
	}
}

// explained is what is to be listed of a suite now.
func explained(o outcome, listed map[string]string) map[string]string {
	now := map[string]string{}
	for name, reason := range listed {
		if strings.HasPrefix(reason, sometimes) || slices.Contains(o.Failed, name) {
			now[name] = reason
		}
	}
	for _, name := range o.Failed {
		if now[name] == "" {
			now[name] = unexplained + strings.Join(strings.Fields(o.failures[name]), " ")
		}
	}
	return now
}

// compare fails the test for what failed and is not listed, and for what is listed and did not fail.
func compare(t *testing.T, o outcome, listed map[string]string) {
	t.Helper()
	for _, name := range o.Failed {
		if reason, is := listed[name]; !is || strings.HasPrefix(reason, unexplained) {
			t.Errorf("failed, and no reason is listed: %s\n%s", name, o.failures[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !strings.HasPrefix(listed[name], sometimes) && !slices.Contains(o.Failed, name) {
			t.Errorf("is listed, and did not fail: %s", name)
		}
	}
}
