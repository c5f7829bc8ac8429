package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gapless-io/gapless/cmd/gapless/progress"
	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
)

// restoreFlags are the flags of `gapless restore`.
type restoreFlags struct {
	at     string
	bump   int64
	verify bool
	quiet  bool
}

func newRestore(io streams) *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore FILE|- DIR",
		Short: "Make a data directory of a backup",
		Long: `Make a data directory of a backup, for gapless serve --data-dir DIR. DIR must be empty,
or must not exist. The whole file is checked before there is a data directory; if
the restore does not finish, run it again.

Objects keep their uids, managed fields, times and resourceVersions. The server
begins above every resourceVersion that was given out before: at the number of
microseconds since 2020. Clients from before get 410 and list again.

DIR has objects only. The first start makes new certificates and a new kubeconfig,
unless you copy the directory pki of the old server into DIR before.`,
		Example: `  gapless restore monday.backup ./restored
  gapless serve --data-dir ./restored

  # check a file
  gapless restore --verify monday.backup

  # the state at an earlier time, of a backup with --history
  gapless restore monday.backup ./restored --at 2026-11-23T14:05:00Z`,
		Args: func(_ *cobra.Command, args []string) error {
			switch want := 2; {
			case f.verify && len(args) != 1:
				return fmt.Errorf("with --verify name one file, or - for standard input; got %d", len(args))
			case !f.verify && len(args) != want:
				return fmt.Errorf("name a file, or - for standard input, and a directory; got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"at", "bump-revision"} {
				if restores := cmd.Flags().Lookup(name); f.verify && restores.Changed {
					return &usageError{fmt.Errorf("--verify restores nothing: leave out %s", givenAs(restores))}
				}
			}
			if cmd.Flags().Changed("bump-revision") && (f.bump < 1 || f.bump > 1<<53) {
				return &usageError{fmt.Errorf("--bump-revision %d: want a number from 1 to %d", f.bump, int64(1)<<53)}
			}
			return f.run(cmd.Context(), args, io.quieted(f.quiet))
		},
	}
	cmd.Flags().BoolVar(&f.verify, "verify", false, "only check the file")
	cmd.Flags().StringVar(&f.at, "at", "",
		"restore the state at this resource version, or this time (2026-11-23T14:05:00Z), of a backup with history")
	cmd.Flags().Int64Var(&f.bump, "bump-revision", 0, "how many resource versions are skipped after that of the backup")
	quietFlag(cmd.Flags(), &f.quiet)
	return cmd
}

func (f *restoreFlags) run(ctx context.Context, args []string, io streams) error {
	at, err := f.moment()
	if err != nil {
		return err
	}
	from := io.in
	if args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it is only read
		from = file
	}
	if f.verify {
		return f.check(ctx, from, args[0], io)
	}
	read, written := newReading(io, from, "read"), newSteps(io, progress.Objects)
	done, err := backup.Restore(ctx, from, backup.RestoreOptions{
		Dir: args[1], At: at, Bump: f.bump, Progress: read.set,
		Written: func(done, of int64) { read.End(); written.set("restored", done, of) },
	})
	read.End()
	written.end()
	if locked, is := errors.AsType[*store.LockedError](err); is {
		return fmt.Errorf("another restore into %s is running (%s)", args[1], locked.Holder)
	}
	if err != nil {
		return err
	}
	io.printf("restored %d objects at resourceVersion %d to %s\n", done.Objects, done.At, args[1])
	io.printf("the server begins after resourceVersion %d; to start it: gapless serve --data-dir %s\n", done.Revision, args[1])
	if names := done.Summary.Encryption; len(names) > 0 {
		io.printf("start it with --encryption-provider-config: objects are encrypted with %s\n", strings.Join(names, ", "))
	}
	return nil
}

// check checks a file.
func (f *restoreFlags) check(ctx context.Context, from io.Reader, name string, io streams) error {
	shown := newReading(io, from, "checked")
	done, err := backup.Verify(ctx, from, shown.set)
	shown.End()
	if err != nil {
		return err
	}
	h := done.Header
	io.printf("%s is whole: %d objects at resourceVersion %d, made %s by gapless %s\n",
		name, done.Summary.Objects, h.Revision, h.Made.Format(time.RFC3339), h.Server)
	io.printf("sha256 %x\n", done.Sum)
	describe(io, done)
	return nil
}

// moment reads --at.
func (f *restoreFlags) moment() (backup.Moment, error) {
	if f.at == "" {
		return backup.Moment{}, nil
	}
	if revision, err := strconv.ParseInt(f.at, 10, 64); err == nil && revision > 0 {
		return backup.Moment{Revision: revision}, nil
	}
	if at, err := time.Parse(time.RFC3339, f.at); err == nil {
		return backup.Moment{Time: at}, nil
	}
	return backup.Moment{}, &usageError{fmt.Errorf(
		"--at %q: want a resource version, a number like 1000000123, or a time like 2026-11-23T14:05:00Z", f.at)}
}

// describe says what a backup has besides its objects.
func describe(io streams, b backup.Restored) {
	if b.Header.History {
		since := "the first write"
		if !b.Header.SinceTime.IsZero() {
			since = b.Header.SinceTime.Format(time.RFC3339)
		}
		io.notef("with history: %d versions that were replaced or deleted, since %s (resourceVersion %d)\n",
			b.Summary.Versions, since, b.Header.Since)
	}
	if names := b.Summary.Encryption; len(names) > 0 {
		io.notef("some objects are encrypted; they need the keys of %s\n", strings.Join(names, ", "))
	}
}

// isTerminal reports whether what a command writes to is a terminal.
func isTerminal(to io.Writer) bool {
	f, is := to.(interface{ Fd() uintptr })
	return is && term.IsTerminal(int(f.Fd()))
}

// reading shows how much of a backup was read: in bytes if it is a file, whose size is known, or else in records.
type reading struct {
	*progress.Meter

	size int64 // of the file; 0: it is none
}

func newReading(s streams, from io.Reader, what string) reading {
	if file, is := from.(*os.File); is {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return reading{progress.New(s.err, what, progress.Bytes), info.Size()}
		}
	}
	return reading{progress.New(s.err, what, progress.Objects), 0}
}

func (r reading) set(h backup.Header, bytes, records int64) {
	if r.size > 0 {
		r.Set(bytes, r.size)
		return
	}
	r.Set(records, expected(h))
}
