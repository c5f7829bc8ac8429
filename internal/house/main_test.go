// Package house_test has the tests about the repository: which package may import which, the
// budgets of files and functions, the words and the links of the documents, the snippets in
// them, and the steps of CI. They run in the root of the repository, and name files relative
// to it.
package house_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if err := goToRoot(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// goToRoot makes the root of the repository the working directory: the nearest one above
// this package that has the workspace.
func goToRoot() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return os.Chdir(dir)
		}
		if dir == filepath.Dir(dir) {
			return fmt.Errorf("no directory above this package has a go.work")
		}
	}
}
