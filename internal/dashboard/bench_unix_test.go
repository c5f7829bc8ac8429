//go:build unix

package dashboard_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cpu is the processor time that the process has taken.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var of unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &of); err != nil {
		b.Fatalf("read the processor time: %v", err)
	}
	return time.Duration(of.Utime.Nano() + of.Stime.Nano())
}

// BenchmarkOpen measures what a dashboard that is open costs: the processor time of each page that is replaced when
// something changes, with that of the client that reads it, and what it is of one processor, as it is read each 5 s at
// most. The server has 1 000 watches, and rests, so that nothing else is measured; its last changes came at 500 per second.
//
//	go test ./internal/dashboard -run '^$' -bench Open -benchtime 20x
func BenchmarkOpen(b *testing.B) {
	p, _, pause := busy(b)
	pause()
	const each = 5 * time.Second
	for _, path := range []string{
		"/", "/timeline", "/timeline?ns=shop&text=nothing", "/object?r=configmaps.v1&ns=shop&name=m-1", "/watches",
		"/blame?r=configmaps.v1&ns=shop&name=m-1", "/between?ns=shop&a=1m",
	} {
		b.Run(path, func(b *testing.B) {
			size, before := 0, cpu(b)
			for b.Loop() {
				size = len(p.shows(path))
			}
			took := (cpu(b) - before) / time.Duration(b.N)
			b.ReportMetric(float64(size), "bytes/page")
			b.ReportMetric(took.Seconds()*1000, "cpu-ms/page")
			b.ReportMetric(float64(took)/float64(each)*100, "%core")
		})
	}
}
