package clientgo_test

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The handlers that are there log, and sleep until 1 ms after the last error: in
	// virtual time, which begins in the year 2000, that can take decades.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
