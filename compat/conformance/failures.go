package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What the reason of a failure may begin with.
const (
	unexplained = "unexplained: " // not examined yet
	sometimes   = "sometimes: "   // it is a matter of time, so that the test may pass as well
)

// readFailures reads a list of tests that fail: a line with a reason, below it and
// indented the tests that fail for it. It returns the reasons by test.
func readFailures(text string) (map[string]string, error) {
	listed := map[string]string{}
	reason := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		name := strings.TrimSpace(line)
		switch {
		case name == "" || strings.HasPrefix(line, "#"):
		case name == line:
			reason = name
		case reason == "":
			return nil, fmt.Errorf("no reason for %q", name)
		default:
			listed[name] = reason
		}
	}
	return listed, nil
}

// writeFailures is the reverse.
func writeFailures(head string, listed map[string]string) string {
	by := map[string][]string{}
	for name, reason := range listed {
		by[reason] = append(by[reason], name)
	}
	var b strings.Builder
	b.WriteString(head)
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, "\n%s\n", reason)
		slices.Sort(by[reason])
		for _, name := range by[reason] {
			fmt.Fprintf(&b, "    %s\n", name)
		}
	}
	return b.String()
}

// explained is what is to be listed now: the reasons that were known of the tests that
// fail, or do so sometimes, and the failure of each new one.
func explained(results, listed map[string]string) map[string]string {
	now := map[string]string{}
	for name, failure := range results {
		reason, known := listed[name]
		switch {
		case known && (failure != "" || strings.HasPrefix(reason, sometimes)):
			now[name] = reason
		case failure != "":
			now[name] = unexplained + strings.Join(strings.Fields(failure), " ")
		}
	}
	return now
}

// unlisted are the tests that failed and are not listed.
func unlisted(results, listed map[string]string) []string {
	var all []string
	for name, failure := range results {
		if _, is := listed[name]; failure != "" && !is {
			all = append(all, name)
		}
	}
	return all
}
