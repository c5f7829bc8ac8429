package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// guide lists which of client-go's tests the replacement does not pass, and why.
const guide = "../../MIGRATING-from-client-go.md"

// TestClientGoTestsPassWithTheReplacement compiles the tests of informers in package
// tools/cache, as the module cache has them, against the replacement. Names that are not
// there are in the shim, directory clientgo.
//
// It runs before the suites of controller-runtime, not beside them: some of these tests add
// handlers as fast as they can, and do not end while others have the processors.
func TestClientGoTestsPassWithTheReplacement(t *testing.T) {
	from := filepath.Join(module(t, "k8s.io/client-go"), "tools", "cache")
	sources := map[string][]byte{}
	for _, name := range []string{"shared_informer_test.go", "controller_test.go", "util_test.go", "main_test.go"} {
		source, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		sources[name] = source
	}
	sources, tests, err := informerTests(sources, map[string]bool{
		"isStarted": true, "isRegistered": true, "eventHandlerCount": true,
	})
	if err != nil {
		t.Fatalf("informer tests: %v", err)
	}
	program := filepath.Join(t.TempDir(), "clientgo.test")
	run(t, "go", "test", "-c", "-o", program, "-overlay="+overlay(t, sources), "./clientgo")
	listed := listedInGuide(t)
	for name := range listed {
		if !slices.Contains(tests, name) {
			t.Errorf("is listed, and there is no such test: %s", name)
		}
	}
	for _, name := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := alone(t, program, name)
			if failure != "" && listed[name] == "" {
				t.Logf("it runs again, since some wait for no more than a second:\n%s", failure)
				failure = alone(t, program, name)
			}
			compareOne(t, name, failure, listed)
		})
	}
}

// alone runs one test in a process of its own, so that it cannot end others, and returns
// what it failed with.
func alone(t *testing.T, program, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, "-test.run=^"+name+"$", "-test.timeout=5m").CombinedOutput()
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%v\n%s", err, out[max(0, len(out)-4<<10):])
}

// overlay writes the file for go test's -overlay that adds the sources to the shim, and
// testdata/inside.go to the replacement.
func overlay(t *testing.T, sources map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the working directory: %v", err)
	}
	replace := map[string]string{
		filepath.Join(here, "..", "..", "informer", "clientgo", "inside.go"): filepath.Join(here, "testdata", "inside.go"),
	}
	for name, source := range sources {
		replace[filepath.Join(here, "clientgo", name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), source, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return file
}

var row = regexp.MustCompile("(?m)^\\| `((?:Test|Example)\\w*)` \\| (.+) \\|$")

func listedInGuide(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	listed := map[string]string{}
	for _, m := range row.FindAllSubmatch(text, -1) {
		listed[string(m[1])] = string(m[2])
	}
	return listed
}
