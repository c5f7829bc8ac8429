package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a process has used.
type Usage struct {
	CPU  time.Duration // user and system time of all its threads, to 10 ms
	RSS  int64         // resident memory, in bytes
	Peak int64         // the largest RSS there was since ResetPeak, in bytes
}

// Usage reads it from the operating system. It works on Linux.
func (s *Server) Usage() (Usage, error) { return usageOf(s.Name, s.PID()) }

func usageOf(name string, pid int) (Usage, error) {
	var u Usage
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("read the CPU time of %s: %w", name, err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("read the CPU time of %s: %q", name, raw)
	}
	for _, f := range fields[11:13] { // proc_pid_stat(5): utime, stime
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the CPU time of %s: %w", name, err)
		}
		u.CPU += time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
	}
	raw, err = os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("read the memory of %s: %w", name, err)
	}
	u.RSS, err = kilobytes(raw, "VmRSS:")
	if err != nil {
		return u, err
	}
	u.Peak, err = kilobytes(raw, "VmHWM:")
	return u, err
}

// kilobytes reads a line like "VmRSS:  1234 kB", as bytes.
func kilobytes(status []byte, name string) (int64, error) {
	_, rest, ok := bytes.Cut(status, []byte(name))
	line, _, _ := bytes.Cut(rest, []byte(" kB"))
	n, err := strconv.ParseInt(strings.TrimSpace(string(line)), 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("%s not found in the status of a process", name)
	}
	return n << 10, nil
}

// ResetPeak makes the present RSS the peak (proc_pid_clear_refs(5)).
func (s *Server) ResetPeak() error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.PID()), []byte("5"), 0); err != nil {
		return fmt.Errorf("reset the peak of %s: %w", s.Name, err)
	}
	return nil
}

// settleStep is the interval between reads of memory while it settles.
const settleStep = 100 * time.Millisecond

// Settled waits until the resident memory has changed by less than 1 %, or 256 KiB, for
// the duration quiet, at most eight times that, and returns it in bytes. It does not
// force a garbage collection: it measures what a user sees.
func (s *Server) Settled(ctx context.Context, quiet time.Duration) (int64, error) {
	end := time.Now().Add(8 * quiet)
	since, base := time.Now(), int64(0)
	for {
		u, err := s.Usage()
		if err != nil {
			return 0, err
		}
		if moved := u.RSS - base; max(moved, -moved) > max(base/100, 256<<10) {
			since, base = time.Now(), u.RSS
		}
		if time.Since(since) >= quiet || time.Now().After(end) {
			return u.RSS, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(settleStep):
		}
	}
}

// ErrMemory says that the machine ran short of memory, and that the server was
// killed for it.
var ErrMemory = errors.New("killed: the machine's memory was nearly used up")

// Guard watches the server's memory until the returned function is called, which
// says the largest RSS that it saw, in bytes. When less than reserve bytes of the
// machine's memory are available, it kills the server, and the error is ErrMemory.
func (s *Server) Guard(reserve int64) func() (int64, error) {
	stop, done := make(chan struct{}), make(chan struct{})
	var peak int64
	var killed error
	// The caller of the returned function ends it and waits for it.
	go func() {
		defer close(done)
		for killed == nil {
			if u, err := s.Usage(); err == nil {
				peak = max(peak, u.Peak)
			}
			raw, err := os.ReadFile("/proc/meminfo")
			if err == nil {
				if free, err := kilobytes(raw, "MemAvailable:"); err == nil && free < reserve {
					killed = ErrMemory
					_ = s.cmd.Process.Kill() // it has ended if it cannot be killed
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() (int64, error) {
		close(stop)
		<-done
		return peak, killed
	}
}

// CPU returns the user and system time of all threads of the server's process, to the nanosecond.
func (s *Server) CPU() (time.Duration, error) {
	const perProcess = 2                     // CPUCLOCK_SCHED (linux/posix-timers.h)
	clock := int32(^s.PID())<<3 | perProcess //nolint:gosec // clock_getcpuclockid(3): numbers of processes are small
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of %s: %w", s.Name, err)
	}
	return time.Duration(t.Nano()), nil
}
