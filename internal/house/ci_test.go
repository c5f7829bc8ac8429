package house_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// steps runs a script over .ci/steps, whose commands may count their calls with
// `times NAME`, and returns all it printed and whether it passed.
func steps(t *testing.T, script string) (out string, passed bool) {
	t.Helper()
	const head = `set -euo pipefail
logs=$1
. .ci/steps
times() { printf . >>"$logs/times-$1"; wc -c <"$logs/times-$1"; }
fails() { printf -- '--- FAIL: TestOf%s (0.00s)\n' "$1"; return 1; }
once() { test "$(times "$1")" -gt 1 || fails "$1"; }
`
	//nolint:gosec // the scripts are those of this file
	cmd := exec.CommandContext(t.Context(), "bash", "-c", head+script, "steps", t.TempDir())
	text, err := cmd.CombinedOutput()
	return string(text), err == nil
}

func TestAStepThatFailsOnceIsNamedAsFlaky(t *testing.T) {
	out, passed := steps(t, `step good true; step "a lane" once A; step good true; flaky`)
	if !passed {
		t.Fatalf("the run failed: %s", out)
	}
	if !strings.HasSuffix(out, "\nFLAKY: a lane: TestOfA\n") || strings.Count(out, "--- FAIL: TestOfA") != 1 {
		t.Errorf("the output does not end with the flaky step, or its first output is lost:\n%s", out)
	}
}

func TestAStepThatFailsTwiceFailsTheRun(t *testing.T) {
	out, passed := steps(t, `step bad fails A; step good echo reached; flaky`)
	if passed || strings.Contains(out, "reached") || strings.Contains(out, "FLAKY") {
		t.Errorf("the run went on after a step that failed twice:\n%s", out)
	}
	if strings.Count(out, "--- FAIL: TestOfA") != 2 {
		t.Errorf("not both outputs were shown:\n%s", out)
	}
}

func TestAtMostTwoStepsMayBeFlaky(t *testing.T) {
	out, passed := steps(t, `step a once A; step b once B; flaky; step c once C; flaky`)
	if passed {
		t.Errorf("three flaky steps passed:\n%s", out)
	}
	if !strings.Contains(out, "FLAKY: a: TestOfA\nFLAKY: b: TestOfB\n") || strings.Contains(out, "TestOfC\nFLAKY") {
		t.Errorf("the flaky steps are not named:\n%s", out)
	}
}

func TestARunThatFailsNamesWhatFailedInEveryLane(t *testing.T) {
	out, passed := steps(t, `(step a once A; step b once B) >"$logs/lane.1"; step c once C || { broken; exit 1; }`)
	if passed {
		t.Errorf("three flaky steps passed:\n%s", out)
	}
	if !strings.HasSuffix(out, "\nFAILED: a: TestOfA\nFAILED: b: TestOfB\nFAILED: c: TestOfC\n") {
		t.Errorf("the end does not name what failed:\n%s", out)
	}
	if !strings.Contains(out, "--- FAIL: TestOfA") {
		t.Errorf("what a lane's step said is lost:\n%s", out)
	}
}

// A lane goes on when one of its steps has failed. That runs again when all lanes have ended.
func TestAStepRunsAgainWithNoOtherBesideIt(t *testing.T) {
	out, passed := steps(t, `lanes_run=true
(step "a lane's" once 'A "B"'; step next echo "ok  reached") >"$logs/lane" & lane=$!
wait "$lane"; cat "$logs/lane"; echo ended; rerun; flaky`)
	if !passed || !strings.HasSuffix(out, "FLAKY: a lane's: TestOfA\n") {
		t.Errorf("the step is not named as flaky: %s", out)
	}
	_, after, found := strings.Cut(out, "ok  reached\nended\n")
	if !found || !strings.Contains(after, "\n== a lane's (") {
		t.Errorf("the lane did not go on, or the step did not run again when it had ended: %s", out)
	}
	out, passed = steps(t, `lanes_run=true; step bad fails A; step good true; rerun || { flaky; exit 1; }`)
	if passed || strings.Contains(out, "FLAKY") || strings.Count(out, "--- FAIL: TestOfA") != 2 {
		t.Errorf("a step that failed twice passed: %s", out)
	}
}

// racing is a script with the race step of .ci/run, over a go command that says which packages it tests.
const racing = `eval "$(sed -n '/^single=(/,/^)/p; /^raced()/,/^}/p; /^mine()/,/^}/p; /^racing()/,/^}/p' .ci/run)"
go() {
	case "$*" in
	*cmd) printf 'm/%s\n' a b c d ;;
	*-not) echo m/e ;;
	*-race*) tested "${@:11}" ;; # what follows the flags
	*) echo "without: ${*: -1}" ;;
	esac
}
git() { echo "$hash"; }
`

func TestTheRaceStepRunsAgainWhatHasNotPassed(t *testing.T) {
	out, passed := steps(t, racing+`hash=0 race_share=1
tested() {
	echo "tested: $*"
	if test "$(times go)" -gt 1; then return; fi
	printf 'ok  \tm/a\t1s\nFAIL\tm/b\t2s\nok  \tm/d\t1s\n' # of c nothing: the command was killed
	return 1
}
racing && exit 1
racing`)
	_, again, found := strings.Cut(out, "FAIL\tm/b")
	if !passed || !found || !strings.Contains(out, "tested: m/a m/b m/c m/d\n") ||
		!strings.Contains(again, "tested: m/b m/c\nwithout: m/e\n") {
		t.Errorf("passed %v: %s", passed, out)
	}
	// A go command that tests nothing, as where there is no C compiler.
	out, passed = steps(t, racing+`hash=0 race_share=1; tested() { echo "tested: $*"; return 1; }; racing || racing`)
	if passed || strings.Count(out, "tested: m/a m/b m/c m/d\n") != 2 {
		t.Errorf("passed %v: %s", passed, out)
	}
}

func TestTwoCommitsRaceAllPackages(t *testing.T) {
	out, passed := steps(t, racing+`race_share=2; tested() { echo "tested: $*"; }
hash=a0; racing; rm "$logs/raced"; hash=a1; racing`)
	if !passed || !strings.Contains(out, "tested: m/b m/d\n") || !strings.Contains(out, "tested: m/a m/c\n") {
		t.Errorf("passed %v: %s", passed, out)
	}
}

// named returns what a pattern's one group finds in a file.
func named(t *testing.T, file, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read the script: %v", err)
	}
	var found []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	return found
}

func TestEveryGroupOfStepsIsAJob(t *testing.T) {
	groups := strings.Fields(strings.Join(named(t, ".ci/run", `(?m)^groups=\((.+)\)$`), " "))
	jobs := strings.Split(strings.Join(named(t, ".github/workflows/ci.yml", `(?m)^ +group: \[(.+)\]$`), ""), ", ")
	if len(groups) == 0 || !slices.Equal(groups, jobs) {
		t.Errorf(".ci/run has the groups %q, the workflow has jobs for %q", groups, jobs)
	}
	out, err := exec.CommandContext(t.Context(), "bash", ".ci/run", "nothing").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no group nothing: there are "+strings.Join(groups, " ")) {
		t.Errorf("a group that does not exist: %v: %s", err, out)
	}
}

// What has steps is a group, or a part of one, and the lanes take all parts.
func TestEveryStepIsOfAGroup(t *testing.T) {
	alone := []string{"program", "cluster", "tests", "checks", "race", "fuzz"}
	var grouped []string
	for _, group := range []string{"upstream", "clients", "languages"} {
		parts := strings.Fields(strings.Join(named(t, ".ci/run", `(?m)^`+group+`_parts=\((.+)\)$`), " "))
		if len(parts) == 0 {
			t.Errorf("the group %s has no parts", group)
		}
		grouped = append(grouped, parts...)
	}
	queued := strings.Fields(strings.Join(named(t, ".ci/run", `(?m)^queue=\(([^)]+)\)$`), " "))
	slices.Sort(grouped)
	if slices.Sort(queued); !slices.Equal(queued, grouped) {
		t.Errorf("the queue has the parts %q, the groups %q", queued, grouped)
	}
	have := named(t, ".ci/run", `(?m)^(\w+)\(\) \{\n(?:\t[^\n]+\n)*?\t(?:test [^\n]+ )?step "`)
	grouped = slices.Sorted(slices.Values(append(grouped, alone...)))
	slices.Sort(have)
	if !slices.Equal(have, grouped) {
		t.Errorf("the functions with steps are %q, those of groups %q", have, grouped)
	}
}

// The steps of the workspace's modules test them whole, with ./... or work.
func TestEveryTestOutsideTheWorkspaceIsOfAStep(t *testing.T) {
	workspace := named(t, "go.work", `(?m)^\t(\./[^\n]+|\.)$`)
	steps := named(t, ".ci/run", `tests_of ([a-z0-9/]+)`)
	// moduleOf finds the go.mod that a directory's packages belong to.
	moduleOf := func(dir string) string {
		for ; dir != "."; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				return dir
			}
		}
		return dir
	}
	covers := func(step, dir string) bool {
		return (dir == step || strings.HasPrefix(dir, step+"/")) && moduleOf(step) == moduleOf(dir)
	}
	outside := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		dir := filepath.Dir(path)
		of := moduleOf(dir)
		if err != nil || !strings.HasSuffix(path, "_test.go") || of == "." || slices.Contains(workspace, "./"+of) {
			return err
		}
		outside++
		if !slices.ContainsFunc(steps, func(step string) bool { return covers(step, dir) }) {
			t.Errorf("no step of .ci/run tests %s", path)
		}
		return nil
	})
	if err != nil || outside == 0 || len(steps) == 0 {
		t.Fatalf("find the tests: %d outside, steps %q: %v", outside, steps, err)
	}
}
