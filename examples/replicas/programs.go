//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// findPrograms sets the programs that no flag names.
func (o *options) findPrograms(ctx context.Context, out io.Writer) error {
	if o.etcd == "" {
		o.etcd, _ = exec.LookPath("etcd") // otherwise it is built
	}
	if o.etcd == "" {
		_, _ = fmt.Fprintln(out, "no etcd in PATH: building it from its module, which takes minutes the first time")
		path, err := exec.CommandContext(ctx, "tools/etcd").Output()
		if err != nil {
			return fmt.Errorf("build etcd (run this in the root of the repository, or install etcd-server): %w", said(err))
		}
		o.etcd = strings.TrimSpace(string(path))
	}
	if o.gapless == "" {
		o.gapless = filepath.Join(o.dir, "gapless")
		if _, err := exec.CommandContext(ctx, "go", "build", "-o", o.gapless, "./cmd/gapless").Output(); err != nil {
			return fmt.Errorf("build gapless (run this in the root of the repository, or set -gapless): %w", said(err))
		}
	}
	return nil
}

// said adds what a program has printed to the error of its end.
func said(err error) error {
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}
