package python

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// release is that of the package kubernetes.
const release = "37.0.2"

// client returns a Python that has the client.
func client(t *testing.T) string {
	t.Helper()
	harness.Tools(t, "python3")
	venv := filepath.Join(harness.CacheDir(t, "python"), release)
	python := filepath.Join(venv, "bin", "python")
	if exec.CommandContext(t.Context(), python, "-c", "import kubernetes").Run() != nil {
		harness.Must(t, ".", nil, "python3", "-m", "venv", "--clear", venv)
		harness.Must(t, ".", nil, python, "-m", "pip", "install", "--quiet", "kubernetes=="+release)
	}
	return python
}

func TestPythonClientKeepsServerStateUnderFailures(t *testing.T) {
	harness.ClientsUnderFailures(t, 2, harness.Client{
		Name: "python " + release, Namespace: "python", Command: []string{client(t), "watching.py"},
	})
}

func TestZlibReadsCompressedStreamingLists(t *testing.T) {
	harness.Tools(t, "python3")
	s := harness.Start(t)
	admin := harness.Administrator(t, s)
	const objects = 40
	harness.Fill(t, admin.Client(t), s.URL+"/api/v1/namespaces/default/configmaps", objects)
	args := append([]string{"inflate.py", s.Address()}, admin.WriteFiles(t)...)
	out, err := exec.CommandContext(t.Context(), "python3",
		append(args, "/api/v1/namespaces/default/configmaps")...).CombinedOutput()
	want := fmt.Sprintf("SYNCED %d ended False\nEND gzip ended True unused 0\n", objects)
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}
