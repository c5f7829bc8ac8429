package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/cmd/gapless/progress"
	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/durable"
	serving "github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// backupPath is where an administrator gets a backup.
const backupPath = "/gapless/v1/backup"

// backupFlags are the flags of `gapless backup`.
type backupFlags struct {
	connection

	dataDir string
	history bool
	force   bool
	quiet   bool
}

func newBackup(io streams) *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "backup FILE|-",
		Short: "Write a backup of a gapless server to a file",
		Long: `Write a backup of a gapless server to a file, while it serves: all objects as they
were at one resourceVersion. The file is checked while it is received, and gets its
name when it is complete. - is standard output.

Objects that are encrypted on the server's disk are encrypted in the backup: keep the
keys elsewhere. All others can be read by whoever can read the file, Secrets too.
Certificates, keys and the kubeconfig are not in it.

gapless restore makes a data directory of the file.`,
		Example: `  # all objects
  gapless backup monday.backup

  # and the versions that were replaced or deleted, to restore an earlier state
  gapless backup monday.backup --history

  # compressed
  gapless backup - | zstd >monday.backup.zst

  # of a server that does not run
  gapless backup monday.backup --data-dir ./gapless-data`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one file, or - for standard output; got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.choose(cmd.Flags()); err != nil {
				return &usageError{err}
			}
			return f.run(cmd.Context(), args[0], io.quieted(f.quiet))
		},
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "back up this data directory, of a server that does not run")
	cmd.Flags().BoolVar(&f.history, "history", false, "also the versions that were replaced or deleted, as far as they are kept")
	// GAPLESS_HISTORY is of gapless serve: how long history is kept.
	_ = cmd.Flags().SetAnnotation("history", withoutVariable, []string{"true"}) // it fails for unknown flags only
	cmd.Flags().BoolVar(&f.force, "force", false, "replace FILE if it exists")
	quietFlag(cmd.Flags(), &f.quiet)
	return cmd
}

// choose decides between a directory and a server, if both are named: the command line goes before variables.
func (f *backupFlags) choose(flags *pflag.FlagSet) error {
	dir := flags.Lookup("data-dir")
	var server *pflag.Flag
	for _, name := range []string{"kubeconfig", "context", "server"} {
		if one := flags.Lookup(name); one.Changed && (server == nil || isByVariable(server)) {
			server = one
		}
	}
	switch {
	case f.dataDir == "" || server == nil || isByVariable(server) && !isByVariable(dir):
		return nil
	case isByVariable(dir) && !isByVariable(server):
		f.dataDir = ""
		return nil
	}
	return fmt.Errorf("%s names a directory, and %s a server: leave out one of them", givenAs(dir), givenAs(server))
}

func (f *backupFlags) run(ctx context.Context, name string, io streams) error {
	if name == "-" && isTerminal(io.out) {
		return &usageError{errors.New("standard output is a terminal: name a file, or redirect it")}
	}
	if name != "-" {
		if err := f.mayWrite(name); err != nil {
			return err
		}
	}
	from, end, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer end()
	var done backup.Restored
	if name == "-" {
		if done, err = f.receive(ctx, from, io.out, io); err != nil {
			return fmt.Errorf("%w; what was written is not complete", err)
		}
		name = "standard output"
	} else if done, err = f.toFile(ctx, from, name, io); err != nil {
		return err
	}
	io.notef("backed up %d objects at resourceVersion %d to %s\n", done.Summary.Objects, done.Header.Revision, name)
	describe(io, done)
	return nil
}

// toFile writes a backup to a file. After an error the file is as it was.
func (f *backupFlags) toFile(ctx context.Context, from io.Reader, name string, s streams) (backup.Restored, error) {
	file, err := durable.Create(name)
	if err != nil {
		return backup.Restored{}, err
	}
	done, err := f.receive(ctx, from, file, s)
	if err == nil {
		err = f.mayWrite(name) // it may have been made meanwhile
	}
	if err != nil {
		return done, errors.Join(err, file.Abort())
	}
	return done, file.Commit()
}

// mayWrite returns an error for a file that is not to be replaced.
func (f *backupFlags) mayWrite(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: name another one, or - for standard output", name)
	case !f.force:
		return fmt.Errorf("%s exists: name another file, or --force to replace it", name)
	}
	return nil
}

// open returns the bytes of the backup. The caller calls end.
func (f *backupFlags) open(ctx context.Context) (from io.Reader, end func(), err error) {
	if f.dataDir != "" {
		return f.openDirectory(ctx)
	}
	cfg, _, err := f.restConfig()
	if err != nil {
		return nil, nil, err
	}
	cfg.Timeout = 0 // a backup takes as long as it takes
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the connection: %w", err)
	}
	url := strings.TrimSuffix(cfg.Host, "/") + backupPath
	resp, err := post(ctx, web, url, map[string]bool{"history": f.history}) //nolint:bodyclose // end does
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		_ = resp.Body.Close() // it was read, or is of no use
		web.CloseIdleConnections()
	}
	if resp.StatusCode != http.StatusOK {
		defer end()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return nil, nil, fmt.Errorf("read the response: %w", err)
		}
		return nil, nil, refusal(resp, body, backupPath)
	}
	return resp.Body, end, nil
}

// openDirectory opens the log of a server that does not run.
func (f *backupFlags) openDirectory(ctx context.Context) (from io.Reader, end func(), err error) {
	dir := filepath.Join(f.dataDir, "log")
	if _, err := os.Stat(filepath.Join(dir, format.ManifestName)); err != nil {
		if _, err := os.Stat(filepath.Join(f.dataDir, serving.ReplicaDir)); err == nil {
			return nil, nil, fmt.Errorf("the objects of the server of %s are in etcd: back that up, with etcdctl snapshot save",
				f.dataDir)
		}
		return nil, nil, fmt.Errorf("%s is not the data directory of a gapless server: %w", f.dataDir, err)
	}
	log, err := revlog.Open(ctx, revlog.Options{Dir: dir})
	if locked, is := errors.AsType[*store.LockedError](err); is {
		return nil, nil, fmt.Errorf("a server is running on %s (%s): leave out --data-dir to back it up",
			f.dataDir, locked.Holder)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", f.dataDir, err)
	}
	reader, writer := io.Pipe()
	ended := make(chan struct{})
	go func() { // ends when the backup is read, or with the reader
		defer close(ended)
		_, err := backup.Take(ctx, backup.Log(log), backup.Options{
			History: f.history, Server: gapless.Version().GitVersion, Encryption: encrypted.Encryption,
		}, writer)
		writer.CloseWithError(errors.Join(err, log.Close()))
	}()
	return reader, func() {
		_ = reader.Close() // it never fails
		<-ended
	}, nil
}

// expected is how many records a backup has, as far as that is known before it was read; 0: it is not.
func expected(h backup.Header) int64 {
	if h.History {
		return 0 // Expected counts objects
	}
	return h.Expected
}

// receive copies a backup, and checks it.
func (f *backupFlags) receive(ctx context.Context, from io.Reader, to io.Writer, s streams) (backup.Restored, error) {
	buffered := bufio.NewWriterSize(to, 1<<20)
	shown := progress.New(s.err, "backed up", progress.Objects)
	done, err := backup.Verify(ctx, io.TeeReader(from, buffered), func(h backup.Header, _, records int64) {
		shown.Set(records, expected(h))
	})
	shown.End()
	if err == nil {
		err = buffered.Flush()
	}
	if damaged, is := errors.AsType[*backup.DamagedError](err); is {
		return done, fmt.Errorf("the server did not send a whole backup (its log may say why): %w", damaged)
	}
	return done, err
}
