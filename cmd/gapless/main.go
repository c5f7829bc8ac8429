// Command gapless is a Kubernetes-compatible API server that keeps the history that
// watches need for hours, with the tools around it.
//
// Each file is one subcommand.
//
// watch*.go and demo*.go have gapless watch and gapless demo, ephemeral.go how a server ends
// with the test that started it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless/cmd/gapless/dropin"
)

// The exit codes, as `gapless --help` documents them.
const (
	exitOK      = 0
	exitRunTime = 1
	exitUsage   = 2
	// What gapless fsck found.
	exitDamaged = 4
	exitBeyond  = 5
	exitLossy   = 6
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once the first signal has begun the drain, a second one ends the process.
	context.AfterFunc(ctx, stop)
	signal.Ignore(syscall.SIGPIPE)
	ctx, gone := context.WithCancelCause(ctx)
	io := streams{in: os.Stdin, out: &pipe{to: os.Stdout, gone: gone}, err: os.Stderr}
	if name, is := dropin.IsName(os.Args[0]); is {
		os.Exit(dropin.Program{
			Name: name, Args: os.Args[1:], In: io.in, Out: io.out, Err: io.err,
			Serve: func(ctx context.Context, args []string) int { return run(ctx, args, io) },
		}.Run(ctx))
	}
	os.Exit(run(ctx, os.Args[1:], io))
}

// streams are what a command reads and writes: data on out, all else on err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// printf writes data. It ignores errors: when a reader has gone, pipe ends the command.
func (s streams) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// notef writes messages for people.
func (s streams) notef(format string, args ...any) { _, _ = fmt.Fprintf(s.err, format, args...) }

// quieted returns streams without messages, if quiet is set. Errors of a command are not written to them.
func (s streams) quieted(quiet bool) streams {
	if quiet {
		s.err = io.Discard
	}
	return s
}

// quietFlag is of commands that can take long.
func quietFlag(flags *pflag.FlagSet, quiet *bool) {
	flags.BoolVarP(quiet, "quiet", "q", false, "write nothing to standard error but errors and warnings: no progress, no summary")
}

// usageError is an error in the command line, not in its execution.
type usageError struct{ cause error }

func (e *usageError) Error() string { return e.cause.Error() }

func (e *usageError) Unwrap() error { return e.cause }

// verdict ends a command with an exit code, without an error message.
type verdict struct{ code int }

func (v *verdict) Error() string { return fmt.Sprintf("exit code %d", v.code) }

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, io streams) int {
	root := newRoot(io) //nolint:contextcheck // commands get the context from ExecuteContextC
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if v, ok := errors.AsType[*verdict](err); ok {
		return v.code
	}
	if errors.Is(err, errNobodyReads) {
		return exitRunTime
	}
	io.notef("error: %s\n", namingVariables(command, err.Error()))
	if _, usage := errors.AsType[*usageError](err); usage || !hasStarted(command) {
		io.notef("run '%s --help' for usage\n", command.CommandPath())
		return exitUsage
	}
	return exitRunTime
}
