package builtin_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	// Upstream logs where its two ways to validate disagree, and what surprises it.
	klog.SetLogger(klog.Logger{})
	// Nearly all of the memory is of one write.
	debug.SetGCPercent(800)
	goleak.VerifyTestMain(m)
}
