//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package persist_test

// cpuMicros is not known here.
func cpuMicros() int64 { return 0 }
