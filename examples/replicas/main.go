//go:build unix

// Command replicas runs three members of etcd, three replicas of gapless over them, and a balancer in front of the
// replicas, until it is interrupted. It says what to try.
//
// What is killed is started again after a few seconds. cluster.go has what is started, start.go in which order,
// process.go how it is ended, balancer.go how clients get from one replica to another.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// options are the flags.
type options struct {
	dir, listen   string
	etcd, gapless string // programs
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "new directory for all data (default a temporary one, which is removed at the end)")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:6443", "address of the balancer; port 0 picks a free one")
	flag.StringVar(&o.etcd, "etcd", "", "etcd's program (default that of PATH, otherwise it is built from its module)")
	flag.StringVar(&o.gapless, "gapless", "", "gapless's program (default that of this directory's module, which is built)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "replicas:", err)
		os.Exit(1)
	}
}

// run runs everything until ctx ends.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "gapless-replicas-"); err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return fmt.Errorf("find the directory %s: %w", o.dir, err)
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	if _, err := os.Stat(filepath.Join(o.dir, "etcd-1")); err == nil {
		return fmt.Errorf("%s has the data of another run, whose members had other addresses: name another directory", o.dir)
	}
	if err := o.findPrograms(ctx, out); err != nil {
		return err
	}
	c, err := newCluster(ctx, o)
	if err != nil {
		return err
	}
	defer c.close()
	_, _ = fmt.Fprintf(out, "starting three members of etcd and three replicas below %s\n", o.dir)
	return c.run(ctx, func() { c.explain(out) })
}
