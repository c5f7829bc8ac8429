// Package expected reads what the program of a test has printed, and the lists of tests that are expected to fail.
package expected

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Results are the verdicts of tests and subtests: PASS, FAIL or SKIP. The zero value is empty,
// and is safe for concurrent use.
type Results struct {
	// Said is what was printed.
	Said string

	mu       sync.Mutex
	verdicts map[string]string
}

var verdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (.+) \([0-9.]+s\)$`)

// ReadResults reads what a test binary has printed with -test.v. A test that has begun and
// has no verdict has failed.
func ReadResults(said string) *Results {
	r := &Results{verdicts: map[string]string{}, Said: said}
	for _, m := range regexp.MustCompile(`(?m)^=== RUN +(.+)$`).FindAllStringSubmatch(said, -1) {
		r.verdicts[m[1]] = "FAIL"
	}
	for _, m := range verdict.FindAllStringSubmatch(said, -1) {
		r.verdicts[m[2]] = m[1]
	}
	return r
}

// Complete makes a test failed that has no verdict: it panicked, or took too long.
func (r *Results) Complete(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdicts[name] == "" {
		r.verdicts[name] = "FAIL"
	}
}

// Add adds what others said.
func (r *Results) Add(other *Results) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdicts == nil {
		r.verdicts = map[string]string{}
	}
	maps.Copy(r.verdicts, other.verdicts)
}

// Leaves returns, sorted, the tests that have no subtests, and those that failed although
// their subtests did not.
func (r *Results) Leaves() (passed, failed, skipped []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	parents, blamed := map[string]bool{}, map[string]bool{}
	for name, v := range r.verdicts {
		for at := strings.LastIndex(name, "/"); at > 0; at = strings.LastIndex(name[:at], "/") {
			parents[name[:at]] = true
			blamed[name[:at]] = blamed[name[:at]] || v == "FAIL"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.verdicts)) {
		switch v := r.verdicts[name]; {
		case v == "FAIL" && !blamed[name]:
			failed = append(failed, name)
		case parents[name]:
		case v == "PASS":
			passed = append(passed, name)
		case v == "SKIP":
			skipped = append(skipped, name)
		}
	}
	return passed, failed, skipped
}

// Surprises are the failures that are not listed.
func (r *Results) Surprises(listed map[string]string) []string {
	_, failed, _ := r.Leaves()
	return slices.DeleteFunc(failed, func(name string) bool { _, is := listed[name]; return is })
}

// Unexplained is what the reason of a failure begins with that is not examined yet.
const Unexplained = "unexplained"

// ReadList reads a list of tests that fail: a line with a reason, below it and indented the
// tests that fail for it. It returns the reasons by test.
func ReadList(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	listed := map[string]string{}
	reason := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		name := strings.TrimSpace(line)
		switch {
		case name == "" || strings.HasPrefix(line, "#"):
		case name == line:
			reason = name
		case reason == "":
			return nil, fmt.Errorf("%s: no reason for %q", file, name)
		default:
			listed[name] = reason
		}
	}
	return listed, nil
}

// WriteList is the reverse, for those that failed, with the reasons that are known. The list begins with what it is of.
func WriteList(file, of string, failed []string, listed map[string]string) error {
	by := map[string][]string{}
	for _, name := range failed {
		reason := listed[name]
		if reason == "" {
			reason = Unexplained
		}
		by[reason] = append(by[reason], name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# What fails of upstream's tests of %s, and why. `go test -update` removes what\n# passes, and adds what "+
		"fails as \"unexplained\" until the reason is added.\n", of)
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, "\n%s\n", reason)
		for _, name := range by[reason] {
			fmt.Fprintf(&b, "    %s\n", name)
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
