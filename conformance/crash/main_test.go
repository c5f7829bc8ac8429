package crash_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/compat/harness"
)

var (
	kills = flag.Int("kills", 20, "how often to kill the program")
	seed  = flag.Uint64("seed", 0, "repeats the choices of a run, though not its timing; 0 picks one")
	// built is the program under test.
	built string
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	dir, err := os.MkdirTemp("", "gapless-crash-")
	if err == nil {
		built, err = harness.Build(context.Background(), dir, harness.Root(), "cmd/gapless")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // what is left is in the directory for temporary files
		os.Exit(code)
	}))
}
