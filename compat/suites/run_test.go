package suites

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// outcome is what a suite did on a side.
type outcome struct {
	Passed  int `json:"passed"`
	Skipped int `json:"skipped"`
	// Failed are the names of the tests that failed, twice.
	Failed []string `json:"failed,omitempty"`
	// Again are those that failed and passed when the suite ran again.
	Again []string `json:"again,omitempty"`
	// Seconds is how long the first run took, without compilation.
	Seconds float64 `json:"seconds"`
	// Servers is the processor time of the side's processes in it, in seconds.
	Servers float64 `json:"servers"`

	failures map[string]string
}

// run runs the suite on a side. A test that fails and is not listed gets a second chance, with all
// the others: suites wait for other goroutines as long as their authors' machines need.
func (s suite) run(t *testing.T, on side, listed map[string]string) outcome {
	t.Helper()
	program, dir := s.build(t)
	v, seconds, servers := runOnce(t, program, dir, s.operator, on)
	o := outcome{Skipped: v.skipped, Seconds: seconds.Seconds(), Servers: servers.Seconds(), failures: map[string]string{}}
	again := verdicts{}
	if surprises(v, listed) > 0 {
		t.Logf("runs again, since %d tests failed that are not listed", surprises(v, listed))
		again, _, _ = runOnce(t, program, dir, s.operator, on)
		// What follows a failure in an ordered container ran only now.
		for name, failure := range again.of {
			if _, ran := v.of[name]; !ran {
				v.of[name] = failure
			}
		}
		o.Skipped = min(o.Skipped, again.skipped)
	}
	for _, name := range slices.Sorted(maps.Keys(v.of)) {
		failure := v.of[name]
		second, ran := again.of[name]
		switch {
		case failure == "":
			o.Passed++
		case ran && second == "":
			o.Passed++
			o.Again = append(o.Again, name)
			t.Logf("passed when it ran again: %s\n%s", name, failure)
		default:
			o.Failed = append(o.Failed, name)
			o.failures[name] = failure
		}
	}
	return o
}

func surprises(v verdicts, listed map[string]string) int {
	n := 0
	for name, failure := range v.of {
		if _, is := listed[name]; failure != "" && !is {
			n++
		}
	}
	return n
}

// runOnce runs a suite's program. It returns what its tests did, how long it ran and what the
// side's processes cost.
func runOnce(t *testing.T, program, dir string, of operator, on side) (v verdicts, took, servers time.Duration) {
	t.Helper()
	work := t.TempDir()
	report := filepath.Join(work, "report.json")
	args := []string{"-test.v=test2json", "-test.timeout=20m"}
	if of.skip != "" {
		args = append(args, "-test.skip="+of.skip)
	}
	// It has ginkgo's flags if anything in it imports ginkgo.
	if help, _ := exec.CommandContext(t.Context(), program, "-help").CombinedOutput(); strings.Contains(string(help),
		"ginkgo.json-report") {
		args = append(args, "--ginkgo.seed=1", "--ginkgo.no-color", "--ginkgo.json-report="+report,
			"--ginkgo.label-filter="+of.labels)
	}
	printed, err := os.Create(filepath.Join(work, "output"))
	if err != nil {
		t.Fatalf("create a file: %v", err)
	}
	defer func() { _ = printed.Close() }() // it is read below
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, on.environment()
	cmd.Stdout, cmd.Stderr = printed, printed // files: nothing has to be copied until it ends
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	servers, ended := wait(cmd)
	took = time.Since(begin)
	text, err := os.ReadFile(printed.Name())
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	return read(t, text, report, ended), took, servers
}
