package dropin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// tried is the environment variable with the files that have looked for a kubectl: a store
// may be in PATH, and several stores.
const tried = "GAPLESS_KUBECTL_TRIED"

// kubectl runs the kubectl of PATH, which is not this program: gapless has none. envtest
// only runs it for ControlPlane.KubectlCmd.
func (p Program) kubectl(ctx context.Context) int {
	self, err := os.Executable()
	var before []string
	if err == nil {
		before = append(filepath.SplitList(os.Getenv(tried)), self)
		var path string
		if path, err = findKubectl(os.Getenv("PATH"), before); err == nil {
			return p.execute(ctx, path, append(os.Environ(), tried+"="+join(before)))
		}
	}
	_, _ = fmt.Fprintf(p.Err, "kubectl: error: %v\n", err)
	return 1
}

func join(paths []string) (all string) {
	for i, path := range paths {
		if i > 0 {
			all += string(filepath.ListSeparator)
		}
		all += path
	}
	return all
}

// findKubectl returns the first kubectl of PATH that is none of some files.
func findKubectl(path string, not []string) (string, error) {
	name := "kubectl"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	var others []os.FileInfo
	for _, file := range not {
		if info, err := os.Stat(file); err == nil {
			others = append(others, info)
		}
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		info, err := os.Stat(candidate)
		if dir == "" || err != nil || slices.ContainsFunc(others, func(o os.FileInfo) bool { return os.SameFile(o, info) }) {
			continue
		}
		if _, err := exec.LookPath(candidate); err == nil {
			return candidate, nil
		}
	}
	return "", errors.New(
		"gapless has no kubectl, and there is none in PATH: install it as https://kubernetes.io/docs/tasks/tools says, or name " +
			"it in the environment variable TEST_ASSET_KUBECTL")
}
