//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// restartAfter is how long what was killed stays away, so that one sees how the others go on.
	restartAfter = 5 * time.Second
	// endWithin is how long a program may take to end: longer than gapless lets requests finish.
	endWithin = 15 * time.Second
)

// process is a program that is started again when it was killed.
type process struct {
	dir, name string // its number is in dir/name.pid, its output in dir/name.log
	program   string
	args      []string
}

// run runs the program until ctx ends, and then waits for its end. It fails if the program cannot be started, or
// ends with an error of its own.
func (p process) run(ctx context.Context) error {
	log, err := os.OpenFile(p.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.name, err)
	}
	defer func() { _ = log.Close() }() // nothing is read from it here
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, p.program, p.args...)
		cmd.Stdout, cmd.Stderr = log, log
		// A group of its own, so that an interrupt from the keyboard does not reach etcd before the replicas have ended.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = endWithin
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start %s: %w", p.name, err)
		}
		if err := os.WriteFile(p.file("pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
			_ = cmd.Process.Kill() // Wait waits for it
			_ = cmd.Wait()
			return fmt.Errorf("write the number of %s: %w", p.name, err)
		}
		err := cmd.Wait()
		if exit, is := errors.AsType[*exec.ExitError](err); is && exit.Exited() && ctx.Err() == nil { // and was not killed
			return fmt.Errorf("%s has ended, %s says why: %w", p.name, p.file("log"), err)
		}
		select {
		case <-time.After(restartAfter):
		case <-ctx.Done():
		}
	}
	return nil
}

// file is a file of the process in its directory.
func (p process) file(kind string) string { return filepath.Join(p.dir, p.name+"."+kind) }
