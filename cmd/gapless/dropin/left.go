package dropin

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gapless-io/gapless/internal/scratch"
)

// envtestPrefix begins the names of the directories that envtest makes for etcd's data and for
// kube-apiserver's certificates (controller-runtime pkg/internal/testing/process). It removes them
// when it stops the programs, and a suite that is killed does not.
const envtestPrefix = "k8s_test_framework_"

// certFiles are what envtest has put into --cert-dir before it starts kube-apiserver.
func certFiles() []string {
	return []string{"apiserver.crt", "apiserver.key", "client-cert-auth-ca.crt", "sa-signer.crt", "sa-signer.key"}
}

// hold marks a directory that envtest made, so that it is removed by the etcd of a later suite if
// this one is killed. It leaves directories alone that somebody chose, and those with other
// files than known. The caller calls release.
func hold(dir string, known ...string) (release func()) {
	dir, err := filepath.Abs(dir)
	if err != nil || filepath.Dir(dir) != filepath.Clean(os.TempDir()) || !strings.HasPrefix(filepath.Base(dir), envtestPrefix) {
		return func() {}
	}
	marked, err := scratch.Adopt(dir, os.Getppid(), known...)
	if err != nil {
		return func() {} // it stays if the suite is killed
	}
	return func() { _ = marked.Release() } // all that is in it was written
}

// removeLeft removes what envtest made for suites that were killed.
func removeLeft() { scratch.Clean(os.TempDir(), envtestPrefix) }
