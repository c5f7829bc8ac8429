// Command oracle runs the reference server, for benchmarks and for a look by hand: etcd on
// disk, with fsync, and the upstream generic API server over it, in one process. It prints a
// line of JSON when it is ready, with url, token and ca (PEM), and its standard input, whose
// end stops it as SIGTERM and SIGINT do.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gapless-io/gapless/conformance/oracle"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) //nolint:forbidigo // this is main
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// run serves until ctx is done or in ends. Arguments after the flags are flags of
// the API server.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	flags := flag.NewFlagSet("oracle", flag.ContinueOnError)
	dir := flags.String("data-dir", "", "directory of etcd's data, made if it is not there (required)")
	noSync := flags.Bool("no-sync", false, "let etcd acknowledge writes before they are on disk; not for measurements")
	verbose := flags.Bool("verbose", false, "print what the API server logs to stderr")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return fmt.Errorf("--data-dir is required")
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	options := oracle.Options{Dir: *dir, NoSync: *noSync, Flags: flags.Args()}
	if *verbose {
		options.Log = os.Stderr
	}
	starting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	server, err := oracle.Start(starting, options)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := server.Stop(); err == nil {
			err = stopped
		}
	}()
	if err := json.NewEncoder(out).Encode(server.Endpoint()); err != nil {
		return err
	}
	ended := make(chan struct{})
	// It ends when the input does, or with the process.
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in) // an error ends the input as well
	}()
	select {
	case <-ctx.Done():
	case <-ended:
	}
	return nil
}
