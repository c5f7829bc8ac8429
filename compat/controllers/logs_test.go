package controllers

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const listFile = "testdata/errors.txt"

// sometimes begins the reason of an error that depends on time, so that it may not be
// logged as well.
const sometimes = "sometimes: "

// listedError is a line of the list.
type listedError struct {
	pattern *regexp.Regexp
	reason  string
}

// readErrors reads the list: a line with a reason, below it and indented the patterns of the
// lines that are logged for it.
func readErrors(t *testing.T) []listedError {
	t.Helper()
	raw, err := os.ReadFile(listFile)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	var all []listedError
	reason := ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		pattern := strings.TrimSpace(line)
		switch {
		case pattern == "" || strings.HasPrefix(line, "#"):
		case pattern == line:
			reason = line
		case reason == "":
			t.Fatalf("%s: no reason for %q", listFile, pattern)
		default:
			all = append(all, listedError{pattern: regexp.MustCompile(pattern), reason: reason})
		}
	}
	return all
}

// isError matches an error of klog, an error or a warning of kwok, and a panic.
var isError = regexp.MustCompile(`^[EF][0-9]{4} |"level":"(ERROR|WARN)"|^panic: |^fatal error: `)

// errors returns the lines that a program has logged as errors, after the program's name.
func (p *program) errors() []string {
	var all []string
	for line := range strings.Lines(p.log.String()) {
		if isError.MatchString(line) {
			all = append(all, p.name+": "+strings.TrimSpace(line))
		}
	}
	return all
}

// checkLogs compares what the programs have logged as errors with the list, both ways.
func (c *cluster) checkLogs(t *testing.T) {
	t.Helper()
	listed := readErrors(t)
	seen := make([]bool, len(listed))
	for _, p := range c.programs {
		for _, line := range p.errors() {
			known := false
			for i, e := range listed {
				if e.pattern.MatchString(line) {
					known, seen[i] = true, true
				}
			}
			if !known {
				t.Errorf("an error that %s does not list: %s", listFile, line)
			}
		}
	}
	for i, e := range listed {
		if !seen[i] && !strings.HasPrefix(e.reason, sometimes) {
			t.Errorf("%s lists %q, which no program has logged", listFile, e.pattern)
		}
	}
}
