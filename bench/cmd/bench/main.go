// Command bench plays the same work against gapless and against upstream's own
// server, and prints a table of how they compare. With --record it keeps what it measured in
// bench/log/results.json and writes docs/performance.md from that.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/gapless-io/gapless/bench/internal/cases"
	"github.com/gapless-io/gapless/bench/internal/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) //nolint:forbidigo // this is main
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

type options struct {
	names    string
	short    bool
	only     string
	repeats  int
	dir      string
	root     string
	gapless  string
	upstream string
	kube     string
	profiles string
	samples  string
	record   bool
	page     bool
	add      string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.names, "run", ".", "regular expression of the cases to run")
	flags.BoolVar(&o.short, "short", false, "little work, once: shows that it works, not how fast")
	flags.StringVar(&o.only, "only", "", "measure this server alone: gapless or upstream")
	flags.IntVar(&o.repeats, "repeats", 0, "runs of a case on each server (default 3; 1 with --short)")
	flags.StringVar(&o.dir, "dir", "", "directory for the servers' data, on the disk to measure (default a temporary one)")
	flags.StringVar(&o.root, "root", "..", "checkout to build the servers from")
	flags.StringVar(&o.gapless, "gapless", "", "gapless program that is built already")
	flags.StringVar(&o.upstream, "upstream", "", "reference server that is built already")
	flags.StringVar(&o.kube, "kube", "", "directory with kube-apiserver and etcd that are built already")
	flags.StringVar(&o.profiles, "profiles", "", "directory that gets CPU profiles of gapless, one per run")
	flags.StringVar(&o.samples, "samples", "", "file that gets every sample, as JSON")
	flags.BoolVar(&o.record, "record", false,
		"keep the results in bench/log/results.json of the checkout, and write docs/performance.md")
	flags.BoolVar(&o.page, "page", false, "measure nothing: write docs/performance.md from bench/log/results.json")
	flags.StringVar(&o.add, "add", "",
		"measure nothing: add the results in this file, which bench-informer -record wrote, and write the page")
	return o, flags.Parse(args)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	selected, err := regexp.Compile(o.names)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	switch {
	case o.short && o.record:
		return errors.New("--short measures nothing that --record could keep")
	case o.page || o.add != "":
		return addFile(ctx, o)
	}
	dir, err := os.MkdirTemp(o.dir, "gapless-bench-")
	if err != nil {
		return fmt.Errorf("make a directory for the data: %w", err)
	}
	defer func() {
		if err == nil { // else the logs are wanted
			err = os.RemoveAll(dir)
		}
	}()
	b := &cases.Bench{Scale: cases.Full(), Select: selected, Dir: dir, Profiles: o.profiles, Log: stderr}
	if o.short {
		b.Scale = cases.Short()
	}
	if o.repeats > 0 {
		b.Scale.Repeats = o.repeats
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o750); err != nil {
			return fmt.Errorf("make the directory of profiles: %w", err)
		}
	}
	if b.Programs, b.Relay, err = programs(ctx, o, dir); err != nil {
		return err
	}
	if b.NeedsKube() {
		if b.Kube, err = kube(ctx, o, dir); err != nil {
			return err
		}
	}
	if b.Stock, err = peer.Build(ctx, peer.Stock, o.root, dir); err != nil {
		return err
	}
	report, failed := b.Run(ctx)
	fmt.Fprintf(stdout, "%s: %s\n\n", time.Now().UTC().Format(time.DateOnly), cases.Machine(dir))
	if o.short {
		fmt.Fprintf(stdout, "Little work, once: these figures do not say how fast anything is.\n\n")
	}
	report.Markdown(stdout)
	if o.record {
		failed = errors.Join(failed, keep(ctx, o.root, cases.Recorded{Machine: cases.Machine(dir), Results: report.Results()}))
	}
	if o.samples != "" {
		raw, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return errors.Join(failed, fmt.Errorf("samples: %w", err))
		}
		failed = errors.Join(failed, os.WriteFile(o.samples, append(raw, '\n'), 0o600))
	}
	return failed
}

// programs builds what was not given. It returns the servers to measure, and gapless for relays.
func programs(ctx context.Context, o options, dir string) (measured []peer.Program, relay peer.Program, err error) {
	for _, p := range []peer.Program{
		{Name: peer.Upstream, Path: o.upstream}, {Name: peer.Gapless, Path: o.gapless, Debug: o.profiles != ""},
	} {
		if o.only != "" && o.only != p.Name && p.Name == peer.Upstream {
			continue
		}
		if p.Path == "" {
			built, err := peer.Build(ctx, p.Name, o.root, dir)
			if err != nil {
				return nil, relay, err
			}
			p.Path = built.Path
		}
		if p.Path, err = filepath.Abs(p.Path); err != nil {
			return nil, relay, fmt.Errorf("path of %s: %w", p.Name, err)
		}
		if p.Name == peer.Gapless {
			relay = p
		}
		if o.only == "" || o.only == p.Name {
			measured = append(measured, p)
		}
	}
	if len(measured) == 0 {
		return nil, relay, fmt.Errorf("--only %q: want %s or %s", o.only, peer.Gapless, peer.Upstream)
	}
	return measured, relay, nil
}

// kube builds kube-apiserver if it was not given.
func kube(ctx context.Context, o options, dir string) (peer.Program, error) {
	if o.kube == "" {
		return peer.BuildKube(ctx, o.root, dir)
	}
	path, err := filepath.Abs(filepath.Join(o.kube, peer.Kube))
	return peer.Program{Name: peer.Kube, Path: path}, err
}
