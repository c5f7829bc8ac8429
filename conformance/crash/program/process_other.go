//go:build !linux

package program

import "os/exec"

// endWithThread does nothing: only Linux knows how.
func endWithThread(*exec.Cmd) {}

// TakeHandles does nothing: only Linux limits a process that runs.
func (*Server) TakeHandles() error { return nil }

// GiveHandles does nothing.
func (*Server) GiveHandles() error { return nil }

// Pause does nothing: only Linux is tested so.
func (*Process) Pause() error { return nil }

// Resume does nothing.
func (*Process) Resume() error { return nil }
