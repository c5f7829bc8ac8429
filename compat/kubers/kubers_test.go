package kubers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// build builds the program of a folder with features and returns its path. Two sets of
// features share what does not depend on them.
func build(t *testing.T, folder, features string) string {
	t.Helper()
	harness.Tools(t, "cargo", "cc")
	target := filepath.Join(harness.CacheDir(t, "kubers"), folder)
	harness.Must(t, folder, nil, "cargo", "build", "--quiet", "--target-dir", target, "--features", features)
	built, err := os.ReadFile(filepath.Join(target, "debug", "watching"))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	program := filepath.Join(t.TempDir(), "watching")
	if err := os.WriteFile(program, built, 0o755); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return program
}

func TestKubeRSWatchersKeepServerStateUnderFailures(t *testing.T) {
	zipped, plain := build(t, "v5", "gzip"), build(t, "v5", "")
	harness.ClientsUnderFailures(t, 2,
		harness.Client{Name: "kube-rs 5.0.0, gzip", Namespace: "gzip", Command: []string{zipped}},
		harness.Client{Name: "kube-rs 5.0.0", Namespace: "plain", Command: []string{plain}})
}

// With rustls it takes no IP address as a server's name.
func TestKubeRSWatcherOf2023KeepsServerStateUnderFailures(t *testing.T) {
	harness.ClientsUnderFailures(t, 0, harness.Client{
		Name: "kube-rs 0.78.0", Namespace: "old", Host: "localhost", Command: []string{build(t, "v078", "")},
	})
}
