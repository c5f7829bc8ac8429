package conformance

import (
	"bytes"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// module returns where the module cache has a module.
func module(t *testing.T, path string) string {
	t.Helper()
	return strings.TrimSpace(run(t, "go", "list", "-m", "-f", "{{.Dir}}", path))
}

// run runs a command that has to succeed, and returns what it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(cmd.Environ(), "GOWORK=off") // -modfile works in no workspace
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, stderr.Bytes())
	}
	return string(out)
}

// compare says which tests failed that are not listed, and which are listed and did not
// fail. results are what each test failed with, "" if it passed; listed are reasons.
func compare(t *testing.T, results, listed map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(results)) {
		compareOne(t, name, results[name], listed)
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if _, ran := results[name]; !ran {
			t.Errorf("is listed, and there is no such test: %s", name)
		}
	}
}

func compareOne(t *testing.T, name, failure string, listed map[string]string) {
	t.Helper()
	switch reason, is := listed[name]; {
	case failure != "" && !is:
		t.Errorf("failed, and is not listed: %s\n%s", name, failure)
	case failure == "" && is && !strings.HasPrefix(reason, sometimes):
		t.Errorf("is listed, and passed: %s", name)
	}
}
