package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestASuiteWhoseProcessEndsRunsAgain(t *testing.T) {
	dir := t.TempDir()
	const script = `#!/bin/sh
if mkdir "$0.ran" 2>/dev/null; then echo "panic: Your Test Panicked"; exit 2; fi
for arg; do case "$arg" in --ginkgo.json-report=*)
	echo '[{"SpecReports": [{"LeafNodeText": "works", "LeafNodeType": "It", "State": "passed"}]}]' >"${arg#*=}"
esac; done
`
	s := &suite{dir: dir, program: filepath.Join(dir, "suite.test")}
	if err := os.WriteFile(s.program, []byte(script), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatalf("write a file: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pkg"), 0o755); err != nil { //nolint:gosec // as in a module
		t.Fatalf("make a directory: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"works": ""}, s.run(t, os.Environ())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
