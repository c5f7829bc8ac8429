//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package persist_test

import "syscall"

// cpuMicros is how long the process has had a processor.
func cpuMicros() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	//nolint:unconvert // other systems have other types
	return (u.Utime.Sec+u.Stime.Sec)*1e6 + int64(u.Utime.Usec) + int64(u.Stime.Usec)
}
