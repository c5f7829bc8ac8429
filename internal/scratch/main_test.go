package scratch_test

import (
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/scratch"
)

// task is an environment variable that makes the test binary a process which holds directories.
const task = "GAPLESS_TEST_SCRATCH"

func TestMain(m *testing.M) {
	switch what := os.Getenv(task); what {
	case "":
		goleak.VerifyTestMain(m)
	case "wait":
		holding("", nil)
	case "make":
		d, err := scratch.Make("test")
		if err != nil {
			holding("", err)
			return
		}
		holding(d.Path(), nil)
	case "race":
		holding("", makeMany())
	default: // a directory of the parent
		_, err := scratch.Adopt(what, os.Getppid(), "known")
		holding(what, err)
	}
}

// holding prints what the process has, and waits for the end of its input.
func holding(path string, err error) {
	if err != nil {
		path = "error: " + err.Error()
	}
	fmt.Fprintln(os.Stdout, path)
	_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it too
}

// makeMany makes directories and removes them, and checks that they are there in between.
func makeMany() error {
	for range 200 {
		d, err := scratch.Make("test")
		if err != nil {
			return err
		}
		if err := os.WriteFile(d.Path()+"/content", nil, 0o600); err != nil {
			return err
		}
		scratch.Clean(os.TempDir(), "gapless-")
		if _, err := os.Stat(d.Path() + "/content"); err != nil {
			return err
		}
		if err := d.Remove(); err != nil {
			return err
		}
	}
	return nil
}
