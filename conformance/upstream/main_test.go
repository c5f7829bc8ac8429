package upstream_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The cases that upstream and gapless answer differently on purpose are left out
	// by their names, unless the command line says -skip.
	// And most of the time is spent waiting, by many at once.
	for name, value := range map[string]string{"test.skip": leftOut(), "test.parallel": "16"} {
		if err := flag.Set(name, value); err != nil {
			panic(err) // the testing package has other flags than it had
		}
	}
	goleak.VerifyTestMain(m)
}
