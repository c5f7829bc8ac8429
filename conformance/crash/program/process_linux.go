package program

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithThread has the kernel kill a process when the thread that started it ends:
// so nothing is left running when a test is killed.
func endWithThread(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// Pause stops the process without closing its connections, until Resume.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// TakeHandles leaves the present process no file handle besides those it has
// open, until GiveHandles.
func (s *Server) TakeHandles() error {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	if err != nil {
		return fmt.Errorf("count the handles of the server: %w", err)
	}
	return s.limitHandles(func(limit *unix.Rlimit) { limit.Cur = min(limit.Max, uint64(len(open))) })
}

// GiveHandles lets the present process open files again.
func (s *Server) GiveHandles() error {
	return s.limitHandles(func(limit *unix.Rlimit) { limit.Cur = limit.Max })
}

func (s *Server) limitHandles(change func(*unix.Rlimit)) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return fmt.Errorf("read the limit of handles: %w", err)
	}
	change(&limit)
	if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		return fmt.Errorf("limit the handles: %w", err)
	}
	return nil
}
