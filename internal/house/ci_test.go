package house_test

import (
	"os/exec"
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

// The lane's step ends only when the flaky step has begun to wait for it, and the flaky
// step's second run looks whether it has ended.
func TestAStepRunsAgainWithNoOtherBesideIt(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("flock is not installed: what runs again does not run alone")
	}
	out, passed := steps(t, `
moment() { read -rt 0.05 <> <(:) || true; }
await() { for _ in {1..400}; do "$@" && return; moment; done; }
long() { touch "$logs/long"; await test -s "$logs/failed"; for _ in {1..6}; do moment; done; rm "$logs/long"; }
flaps() { test -s "$logs/times-flaps" || await test -e "$logs/long"
	test "$(times flaps)" -gt 1 || fails flaps; test ! -e "$logs/long"; }
step long long >"$logs/lane" & lane=$!
step flaps flaps; wait "$lane"; flaky`)
	if !passed || !strings.HasSuffix(out, "FLAKY: flaps: TestOfflaps\n") {
		t.Errorf("the second run was not alone: %s", out)
	}
}
