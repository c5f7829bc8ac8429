// Command gapless is a Kubernetes-compatible API server whose watches do not die
// of old resource versions, with the tools around it.
//
// It has one noun: the command tree, in which each file is one subcommand.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes, as `gapless --help` documents them.
const (
	exitOK      = 0
	exitRunTime = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once the first signal has begun the drain, a second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// streams are what a command reads and writes: data on out, all else on err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// printf writes data. A reader that has gone ends the command by a signal, or is
// not missed.
func (s streams) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// notef writes what is for people.
func (s streams) notef(format string, args ...any) { _, _ = fmt.Fprintf(s.err, format, args...) }

// usageError is an error of the command line, not of what it asked for.
type usageError struct{ cause error }

func (e *usageError) Error() string { return e.cause.Error() }

func (e *usageError) Unwrap() error { return e.cause }

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, io streams) int {
	root := newRoot(io) //nolint:contextcheck // commands get it from ExecuteContextC
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	io.notef("error: %v\n", err)
	if _, usage := errors.AsType[*usageError](err); usage || !hasStarted(command) {
		io.notef("run '%s --help' for usage\n", command.CommandPath())
		return exitUsage
	}
	return exitRunTime
}
