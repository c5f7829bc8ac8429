package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the lists of what fails in testdata again")

// suite is a ginkgo suite: the tests of one package below controller-runtime's pkg.
type suite struct {
	name    string
	pkg     string
	dir     string // where controller-runtime is
	modfile string // a go.mod for this module that says so; "": its own does
	plain   bool   // its tests that are not ginkgo's instead

	program string
}

func (s *suite) build(t *testing.T) {
	t.Helper()
	s.program = filepath.Join(t.TempDir(), "suite.test")
	args := []string{"test", "-c", "-o", s.program}
	if s.modfile != "" {
		args = append(args, "-modfile="+s.modfile)
	}
	run(t, "go", append(args, controllerRuntime+"/pkg/"+s.pkg)...)
}

// run runs the specs with these names, or all, and returns what each failed with, "" if
// it passed.
func (s *suite) run(t *testing.T, env []string, names ...string) map[string]string {
	t.Helper()
	begin := time.Now()
	report := filepath.Join(t.TempDir(), "report.json")
	args := []string{"-test.timeout=6m", "--ginkgo.seed=1", "--ginkgo.json-report=" + report}
	if s.plain {
		args = []string{"-test.timeout=6m", "-test.v", "-test.skip=^TestSource$"} // that is ginkgo's
		names = nil
	}
	for _, name := range names {
		// What it is matched with begins with the suite's description.
		args = append(args, "--ginkgo.focus= "+regexp.QuoteMeta(strings.ReplaceAll(name, between, " "))+"$")
	}
	// There is no report if a spec failed in a goroutine of its own, which panics, or hung until the timeout. Like specs that
	// fail, the suite then runs a second time.
	results, err := s.results(t.Context(), env, args, report)
	if err != nil {
		t.Logf("it runs again: %v", err)
		if results, err = s.results(t.Context(), env, args, report); err != nil {
			t.Fatalf("run the suite: %v", err)
		}
	}
	passed := 0
	for _, failure := range results {
		if failure == "" {
			passed++
		}
	}
	t.Logf("%d of %d specs passed in %.0f s", passed, len(results), time.Since(begin).Seconds())
	return results
}

// results runs the suite, and returns what each spec failed with.
func (s *suite) results(ctx context.Context, env, args []string, report string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Dir = filepath.Join(s.dir, "pkg", s.pkg)
	cmd.Env = env
	said, err := cmd.CombinedOutput()
	if s.plain {
		return plainTests(string(said)), nil
	}
	results, reportErr := specs(report)
	if reportErr != nil {
		return nil, fmt.Errorf("%w\n%s", errors.Join(err, reportErr), said[max(0, len(said)-16<<10):])
	}
	return results, nil
}

// judge compares what run says with the suite's list of what fails. What was not listed runs a
// second time, alone: the suites wait for other goroutines, as long as their authors' machines
// need.
func (s *suite) judge(t *testing.T, run func(names []string) map[string]string) {
	t.Helper()
	results := run(nil)
	file := filepath.Join("testdata", "failures", s.name+".txt")
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	listed, err := readFailures(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	// More are no matter of chance.
	if surprises := unlisted(results, listed); len(surprises) > 0 && len(surprises) <= 10 && !*update {
		for name, failure := range run(surprises) {
			if failure == "" {
				t.Logf("passed when it ran again, alone: %s\n%s", name, results[name])
			}
			results[name] = failure
		}
	}
	if *update {
		listed = explained(results, listed)
		head := fmt.Sprintf(
			"# What fails in suite %s of controller-runtime, and why. `go test -run Suites -update`\n# removes what passes, "+
				"and adds what fails as %q until the reason is added.\n", s.name, strings.TrimSpace(unexplained))
		if err := os.WriteFile(file, []byte(writeFailures(head, listed)), 0o644); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	for name, reason := range listed {
		if strings.HasPrefix(reason, unexplained) {
			t.Errorf("nobody has said why it fails: %s\n%s", name, reason)
		}
	}
	compare(t, results, listed)
}
