package clientgo_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The handlers that are there log, and sleep until 1 ms after the last error: in
	// virtual time, which begins in the year 2000, that can take decades.
	utilruntime.ErrorHandlers = nil
	neverExitWatch = nil
	// Streaming lists are off by default before client-go 0.35.
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
