// Package e2e_test tests whole servers: over real sockets, with the informer
// beside them, and as a process. Files called harness_… have what the tests share.
package e2e_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		// Most of these tests wait for time to pass, and only few run at once by default.
		if err := flag.Set("test.parallel", "16"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
