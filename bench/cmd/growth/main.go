// Command growth grows what a server holds, one dimension at a time, measures what operations cost it at each size, keeps
// that in bench/log/growth.json, and writes docs/growth.md.
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
	"regexp"
	"syscall"
	"time"

	"github.com/gapless-io/gapless/bench/internal/cases"
	"github.com/gapless-io/gapless/bench/internal/growth"
	"github.com/gapless-io/gapless/bench/internal/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) //nolint:forbidigo // this is main
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

type options struct {
	names, dir, root, gapless string
	most                      int
	record, page, debug       bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.names, "run", ".", "regular expression of the dimensions to grow")
	flags.IntVar(&o.most, "most", 0, "grow none beyond this; 0 is as far as each is meant to")
	flags.StringVar(&o.dir, "dir", "", "directory for the server's data, on the disk to measure (default a temporary one)")
	flags.StringVar(&o.root, "root", "..", "checkout to build the server from")
	flags.StringVar(&o.gapless, "gapless", "", "gapless program that is built already")
	flags.BoolVar(&o.debug, "debug", false, "let the server offer profiles; its log says where")
	flags.BoolVar(&o.record, "record", false, "keep what is measured in bench/log/growth.json, and write docs/growth.md")
	flags.BoolVar(&o.page, "page", false, "measure nothing: write docs/growth.md from bench/log/growth.json")
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
	if o.page {
		return keep(o.root)
	}
	dir, err := os.MkdirTemp(o.dir, "gapless-growth-")
	if err != nil {
		return fmt.Errorf("make a directory for the data: %w", err)
	}
	defer func() {
		if err == nil { // else the logs are wanted
			err = os.RemoveAll(dir)
		}
	}()
	commit := ""
	if o.record { // before the record changes the checkout
		if commit, err = cases.Commit(ctx, o.root); err != nil {
			return err
		}
	}
	program := peer.Program{Name: peer.Gapless, Path: o.gapless}
	if program.Path == "" {
		if program, err = peer.Build(ctx, peer.Gapless, o.root, dir); err != nil {
			return err
		}
	}
	if program.Path, err = filepath.Abs(program.Path); err != nil {
		return fmt.Errorf("path of gapless: %w", err)
	}
	program.Debug = o.debug
	p := &growth.Player{
		// gapless gives memory back up to 2 s after its work, behind two collections, which take seconds among a million objects.
		Program: program, Dir: dir, Most: o.most, Window: 100 * time.Millisecond, Rounds: 5, Quiet: 8 * time.Second, Log: stderr,
	}
	var failed []error
	record := &growth.Record{}
	for _, d := range growth.Dimensions() {
		if !selected.MatchString(d.Name) || ctx.Err() != nil {
			continue
		}
		m, err := p.Play(ctx, d)
		failed = append(failed, err)
		if len(m.Sizes) == 0 {
			continue
		}
		m.Date, m.Commit, m.Machine = time.Now().UTC().Format(time.DateOnly), commit, cases.Machine(dir)
		record.Add(m)
		if o.record {
			failed = append(failed, keep(o.root, m))
		}
	}
	_, err = io.WriteString(stdout, record.Page())
	return errors.Join(append(failed, err)...)
}

// keep adds dimensions to the record of a checkout, and writes its page.
func keep(root string, measured ...growth.Measured) error {
	path := filepath.Join(root, "bench", "log", "growth.json")
	record, err := growth.ReadRecord(path)
	if err != nil {
		return err
	}
	for _, m := range measured {
		record.Add(m)
	}
	if err := record.Write(path); err != nil {
		return err
	}
	//nolint:gosec // a page is for everybody
	return os.WriteFile(filepath.Join(root, "docs", "growth.md"), []byte(record.Page()), 0o644)
}
