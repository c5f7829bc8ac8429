package program

import (
	"os"
	"os/exec"
	"runtime"
)

// Process is a process that ends with this one at the latest.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it has ended
	err   error         // set before ended is closed
}

// Launch starts a command.
func Launch(cmd *exec.Cmd) (*Process, error) {
	endWithThread(cmd)
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	// Ends with the process, which whoever launched it kills.
	go func() {
		runtime.LockOSThread() // the thread must not end before the process
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.ended)
	}()
	return p, <-started
}

// Kill ends the process with SIGKILL, and waits for that. An error says that there is none.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	<-p.ended
	return err
}

// Ended is closed once the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

func (p *Process) signal(s os.Signal) error { return p.cmd.Process.Signal(s) }
