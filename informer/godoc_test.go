package informer_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestGoDocShowsNoInternalNames reads what go doc shows of this package and looks for the
// names of internal packages, qualified or as a path.
func TestGoDocShowsNoInternalNames(t *testing.T) {
	dirs, err := os.ReadDir("internal")
	if err != nil {
		t.Fatalf("list a directory: %v", err)
	}
	var names []string
	for _, d := range dirs {
		names = append(names, regexp.QuoteMeta(d.Name()))
	}
	internal := regexp.MustCompile(`internal/|\b(` + strings.Join(names, "|") + `)\.[A-Z]`)
	for _, pkg := range []string{".", "./share"} {
		out, err := exec.CommandContext(t.Context(), "go", "doc", "-all", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go doc -all %s: %v\n%s", pkg, err, out)
		}
		for n, line := range strings.Split(string(out), "\n") {
			if internal.MatchString(line) {
				t.Errorf("go doc -all %s, line %d: %s", pkg, n+1, line)
			}
		}
	}
}
