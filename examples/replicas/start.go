//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// run starts everything, calls ready when all replicas serve, and ends everything in order when ctx ends or something
// cannot be started.
func (c *cluster) run(ctx context.Context, ready func()) error {
	parts, ctx := errgroup.WithContext(ctx)
	// The members end after the replicas, which use them until their end.
	below, endMembers := context.WithCancel(context.WithoutCancel(ctx))
	defer endMembers()
	for _, m := range c.members {
		parts.Go(func() error { return m.run(below) })
	}
	parts.Go(func() error {
		defer endMembers()
		replicas, ctx := errgroup.WithContext(ctx)
		replicas.Go(func() error { return c.balancer.run(ctx) })
		replicas.Go(func() error { return c.startReplicas(ctx, replicas, ready) })
		return replicas.Wait()
	})
	return parts.Wait()
}

// startReplicas starts the first replica, gives its certificate authority and its key of tokens to the others, and
// starts them.
func (c *cluster) startReplicas(ctx context.Context, in *errgroup.Group, ready func()) error {
	for i, r := range c.replicas {
		if i > 0 {
			if err := c.share(filepath.Join(c.dir, r.name)); err != nil {
				return err
			}
		}
		in.Go(func() error { return r.run(ctx) })
		if err := awaitFile(ctx, r.file("ready")); err != nil {
			return err
		}
	}
	if err := c.writeKubeconfig(); err != nil {
		return err
	}
	ready()
	return nil
}

// share copies what all replicas must have in common. Each makes a serving certificate of its own.
func (c *cluster) share(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
		return fmt.Errorf("make the directory of a replica: %w", err)
	}
	for _, name := range []string{"ca.crt", "ca.key", "sa.key"} {
		text, err := os.ReadFile(filepath.Join(c.dir, c.replicas[0].name, "pki", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "pki", name), text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("copy %s to another replica: %w", name, err)
		}
	}
	return nil
}

// lookEvery is how often it is looked for a file.
const lookEvery = 100 * time.Millisecond

// awaitFile waits until a file is there.
func awaitFile(ctx context.Context, name string) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
