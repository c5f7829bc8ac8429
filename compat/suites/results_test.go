package suites

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// verdicts are what tests failed with, by name: "" for one that passed. Skipped ones are only
// counted.
type verdicts struct {
	of      map[string]string
	skipped int
}

// between stands between a spec's name and those of what it is in.
const between = " > "

// addSpecs adds what a ginkgo report says. Nodes without a name, like BeforeSuite, are added if
// they failed.
func (v *verdicts) addSpecs(report []byte) error {
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeText            string
			LeafNodeType            string
			State                   string
			Failure                 struct{ Message, ForwardedPanic string }
		}
	}
	if err := json.Unmarshal(report, &reports); err != nil {
		return fmt.Errorf("ginkgo's report: %w", err)
	}
	for _, report := range reports {
		for _, s := range report.SpecReports {
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), between)
			if s.LeafNodeType != "It" {
				name = s.LeafNodeType
			}
			switch {
			case s.State == "skipped", s.State == "pending":
				v.skipped++
			case s.State != "passed":
				v.add(name, s.State+": "+s.Failure.Message+s.Failure.ForwardedPanic)
			case s.LeafNodeType == "It":
				v.add(name, "")
			}
		}
	}
	return nil
}

// add adds a test; names that several have are numbered.
func (v *verdicts) add(name, failure string) {
	for n, first := 2, name; ; n++ {
		if _, taken := v.of[name]; !taken {
			break
		}
		name = fmt.Sprintf("%s (%d)", first, n)
	}
	v.of[name] = failure
}

// event is one of `go test -json`.
type event struct{ Action, Test, Output string }

// addTests adds what a test program printed with -test.v=test2json: the tests that have no others
// in them, and are no entry to ginkgo's.
func (v *verdicts) addTests(t *testing.T, printed []byte) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "test2json")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(printed), os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("test2json: %v", err)
	}
	last, said, parents := map[string]string{}, map[string]string{}, map[string]bool{}
	for lines := bufio.NewReader(bytes.NewReader(out)); ; {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) == 0 && err != nil {
			break
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("test2json printed %q: %v", line, err)
		}
		if e.Test == "" {
			continue
		}
		last[e.Test] = e.Action
		said[e.Test] += e.Output
		for i, r := range e.Test {
			if r == '/' {
				parents[e.Test[:i]] = true
			}
		}
	}
	for name, action := range last {
		switch {
		case parents[name] && !failedItself(name, last), strings.Contains(said[name], "Running Suite: "):
		case action == "pass":
			v.add(name, "")
		case action == "skip":
			v.skipped++
		default:
			v.add(name, action+": "+said[name][max(0, len(said[name])-4<<10):])
		}
	}
}

// failedItself reports whether a test with others in it failed although none of these did.
func failedItself(name string, last map[string]string) bool {
	if last[name] == "pass" || last[name] == "skip" {
		return false
	}
	for other, action := range last {
		if strings.HasPrefix(other, name+"/") && action != "pass" && action != "skip" {
			return false
		}
	}
	return true
}

// read reads what a suite left: its output and ginkgo's report, which is missing if it has no specs.
func read(t *testing.T, printed []byte, reportFile string, ended error) verdicts {
	t.Helper()
	v := verdicts{of: map[string]string{}}
	report, err := os.ReadFile(reportFile)
	if err == nil {
		err = v.addSpecs(report)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	v.addTests(t, printed)
	failed := 0
	for _, failure := range v.of {
		if failure != "" {
			failed++
		}
	}
	// A program can also fail before its first test, or after the last.
	if ended != nil && failed == 0 {
		v.add("the test program", ended.Error()+"\n"+string(printed[max(0, len(printed)-4<<10):]))
	}
	return v
}
