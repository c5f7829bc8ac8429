// Command dropin stands in for the two programs that controller-runtime's package envtest
// starts: called kube-apiserver it runs `gapless serve`, from the file gapless beside it,
// called etcd it says where the objects are kept. It knows the flags that envtest passes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, stop = whileParentLives(ctx)
	defer stop()
	name := filepath.Base(os.Args[0])
	programs := map[string]func(context.Context, []string) error{"etcd": etcd, "kube-apiserver": apiserver}
	run := programs[name]
	if run == nil {
		run = func(context.Context, []string) error {
			return errors.New("it has to be called kube-apiserver or etcd")
		}
	}
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// whileParentLives returns a context that also ends when the process that started this one
// has ended: a test that is killed stops nothing.
func whileParentLives(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() { // ends with ctx
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		stop()
	}()
	return ctx, stop
}

// flagsOf returns a set of flags. Its help goes to standard output, where envtest looks for
// some of them.
func flagsOf(name string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetOutput(os.Stdout)
	return flags
}

// ignored defines flags that change nothing here, each with the reason, and returns the
// function that says so of those that are set.
func ignored(flags *pflag.FlagSet, reasons map[string]string) (report func(io.Writer)) {
	for name, reason := range reasons {
		flags.StringSlice(name, nil, "ignored: "+reason)
	}
	return func(to io.Writer) {
		flags.Visit(func(f *pflag.Flag) {
			if reason, is := reasons[f.Name]; is {
				fmt.Fprintf(to, "--%s is ignored: %s\n", f.Name, reason)
			}
		})
	}
}
