package main

import (
	"context"
	"errors"
	"io"
	"syscall"
)

// errNobodyReads ends a command whose output goes to a program that has ended, as in
// `gapless demo | head -1`.
var errNobodyReads = errors.New("the reader of the output has gone")

// pipe is an output that ends the command when its reader has gone. The process
// ignores SIGPIPE, which would end it before it has removed its temporary files.
type pipe struct {
	to   io.Writer
	gone context.CancelCauseFunc
}

// Write implements io.Writer.
func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.gone(errNobodyReads)
	}
	return n, err
}

// Fd returns the file descriptor, or an invalid one if there is none.
func (p *pipe) Fd() uintptr {
	if f, is := p.to.(interface{ Fd() uintptr }); is {
		return f.Fd()
	}
	return ^uintptr(0)
}
