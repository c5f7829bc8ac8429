package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/cmd/gapless/progress"
	"github.com/gapless-io/gapless/internal/migrate"
	serving "github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/etcd"
)

// migrateFlags are the flags of `gapless migrate`.
type migrateFlags struct {
	gapless.Etcd

	from, to   string
	encryption string
	eventTTL   time.Duration
	without    []string
	bump       int64
	reuse      bool
	quiet      bool
}

func newMigrate(io streams) *cobra.Command {
	var f migrateFlags
	cmd := &cobra.Command{
		Use:   "migrate --from DIR|URLS --to URLS|DIR",
		Short: "Move all objects from a data directory into etcd, or back",
		Long: `Move all objects from the data directory of a gapless server that does not run into
an etcd cluster, where replicas (gapless serve --etcd-servers) and kube-apiserver keep
them; or from etcd into a new data directory. URLS are those of etcd's members, with
commas between them.

Everything is checked before the first write: if objects cannot be moved, the command
says why, for the first 100, and writes nothing. In the end both sides are read again and
compared; the digest of both is printed. No object of the source is changed. A directory
is opened as a start of its server does, which completes what a crash has left: run the
command as the user of that server.

The target must be empty. If the command is interrupted, the target is not used by any
server, and the same command goes on: in etcd with what is missing, in a directory from
the beginning. Servers that use the objects in etcd must be stopped.

Clients that were connected before get 410 and list again. In etcd that needs a revision
that is as high as all resourceVersions of the directory: if it is not, the command says
how to prepare etcd, and writes nothing unless --reuse-resource-versions is given.

The certificates and keys in DIR/pki are not moved.`,
		Example: `  # into etcd, and start the first replica there
  gapless migrate --from ./gapless-data --to http://127.0.0.1:2379
  mkdir replica-1 && cp -a ./gapless-data/pki replica-1/
  gapless serve --etcd-servers http://127.0.0.1:2379 --data-dir replica-1

  # and back
  gapless migrate --from http://127.0.0.1:2379 --to ./from-etcd`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, io) },
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *migrateFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "from", "", "what is moved: a data directory, or URLs of an etcd cluster")
	flags.StringVar(&f.to, "to", "", "where to: URLs of an etcd cluster, or an empty or new directory")
	addEtcdAccess(flags, &f.Etcd)
	refuse(flags, "etcd-servers-overrides", "one cluster is moved, and what other clusters have stays there; stop using them "+
		"first, or leave their resources out with --exclude")
	flags.StringVar(&f.encryption, "encryption-provider-config", "",
		"file with an EncryptionConfiguration: how objects are encrypted, in the directory and in etcd")
	flags.DurationVar(&f.eventTTL, "event-ttl", gapless.DefaultEventTTL,
		"how long Events live after they were written: what the servers of the source and of the target have; "+
			"0 means forever")
	flags.StringSliceVar(&f.without, "exclude", nil,
		"beginnings of keys in etcd, after the prefix, that are not moved, like flowschemas/own or "+
			"configmaps/default/damaged")
	flags.Int64Var(&f.bump, "bump-revision", 0,
		"how many resource versions a new directory skips after those of etcd (default as gapless restore)")
	flags.BoolVar(&f.reuse, "reuse-resource-versions", false,
		"move into an etcd that is below the directory's resourceVersions, and gives them out again: no client of the "+
			"directory's server may be left")
	quietFlag(flags, &f.quiet)
	// Other commands have the variables.
	for _, name := range []string{"from", "to", "exclude", "bump-revision", "reuse-resource-versions"} {
		_ = flags.SetAnnotation(name, withoutVariable, []string{"true"}) // it fails for unknown flags only
	}
}

// isEtcd reports whether a side is an etcd cluster.
func isEtcd(side string) bool {
	return strings.HasPrefix(side, "http://") || strings.HasPrefix(side, "https://")
}

// options checks the command line.
func (f *migrateFlags) options(ctx context.Context, flags *pflag.FlagSet) (migrate.Options, error) {
	o := migrate.Options{EventTTL: f.eventTTL, Without: f.without, Bump: f.bump}
	urls := f.to
	o.Dir = f.from
	if isEtcd(f.from) {
		urls, o.Dir = f.from, f.to
	}
	o.Prefix = path.Join("/", cmp.Or(f.Prefix, gapless.DefaultEtcdPrefix))
	o.Cluster = etcd.Cluster{Servers: strings.Split(urls, ","), CAFile: f.CAFile, CertFile: f.CertFile, KeyFile: f.KeyFile}
	identity, err := os.Hostname()
	if err != nil {
		identity = "gapless" // it is only a label of metrics
	}
	o.Encryption = encrypted.Config{File: f.encryption, ServerID: identity, Check: func(file string) error {
		return serving.CheckPrivate(ctx, file, slog.New(slog.DiscardHandler))
	}}
	switch {
	case f.from == "" || f.to == "":
		return o, errors.New("give --from and --to: a data directory and the URLs of etcd, in one order or the other")
	case isEtcd(f.from) && isEtcd(f.to):
		return o, errors.New("--from and --to are both etcd: to copy that, use its snapshots")
	case !isEtcd(f.from) && !isEtcd(f.to):
		return o, errors.New("--from and --to are both directories: a copy of a stopped server's directory is one; " +
			"etcd is named by URLs, like http://127.0.0.1:2379")
	case f.eventTTL < 0 || f.eventTTL > 0 && f.eventTTL < time.Second:
		return o, fmt.Errorf("--event-ttl %v: want at least 1s; 0 means forever", f.eventTTL)
	case flags.Changed("bump-revision") && (f.bump < 1 || f.bump > 1<<53):
		return o, fmt.Errorf("--bump-revision %d: want a number from 1 to %d", f.bump, int64(1)<<53)
	case !isEtcd(f.from) && (f.bump != 0 || flags.Changed("exclude")):
		return o, errors.New("--bump-revision and --exclude are for migrations from etcd into a directory")
	case isEtcd(f.from) && f.reuse:
		return o, errors.New("--reuse-resource-versions is for migrations into etcd")
	case flags.Changed("exclude") && (len(f.without) == 0 || slices.Contains(f.without, "")):
		return o, errors.New("--exclude has an empty element, with which all keys begin")
	}
	for _, start := range f.without {
		if strings.HasPrefix(start, "/") {
			return o, fmt.Errorf("--exclude %s: no key begins so after the prefix %s/: want the beginning of what follows it",
				start, o.Prefix)
		}
	}
	return o, o.Cluster.CheckForm()
}

func (f *migrateFlags) run(cmd *cobra.Command, io streams) error {
	o, err := f.options(cmd.Context(), cmd.Flags())
	if err != nil {
		return &usageError{err}
	}
	shown := newSteps(io.quieted(f.quiet), progress.Objects)
	o.Progress = func(step migrate.Step, objects, of int64) { shown.set(string(step), objects, of) }
	move := migrate.IntoEtcd
	if isEtcd(f.from) {
		move = migrate.IntoDirectory
	}
	o.Checked = func(p migrate.Plan) error {
		shown.end()
		showPlan(io.quieted(f.quiet), p)
		return f.accept(io, p)
	}
	done, err := move(cmd.Context(), o)
	shown.end()
	if err != nil {
		return err
	}
	io.printf("moved %d objects to %s, %d of them now, %.0f/s\n", done.Objects, f.to, done.Written,
		float64(done.Written)/max(done.Wrote.Seconds(), 0.001))
	if done.Expired > 0 {
		io.printf("left out %d Events that have expired\n", done.Expired)
	}
	io.printf("sha256 of all objects: source %s, target %s\n", done.Source, done.Target)
	f.next(io, done)
	return nil
}

// showPlan says what will be written.
func showPlan(io streams, p migrate.Plan) {
	io.notef("all %d objects can be moved\n", p.Objects)
	if p.Begun > 0 {
		io.notef("%d are in etcd already, from a migration that did not finish\n", p.Begun)
	}
	for _, key := range p.LeftOut {
		io.notef("left out: %s\n", key)
	}
	if more := p.LeftOutCount - int64(len(p.LeftOut)); more > 0 {
		io.notef("left out: %d more\n", more)
	}
}

// accept refuses an etcd that gives out resourceVersions of the directory again, but for a migration that goes on: it
// was accepted then.
func (f *migrateFlags) accept(io streams, p migrate.Plan) error {
	switch {
	case p.Directory <= p.Etcd || p.Begun > 0:
		return nil
	case f.reuse:
		io.notef("warning: etcd gives out the resourceVersions from %d to %d again\n", p.Etcd, p.Directory)
		return nil
	}
	return fmt.Errorf("etcd is at revision %d, and resourceVersions of the directory go up to %d: once etcd comes there, "+
		"clients from before do not get 410, but other changes; nothing was written. Prepare an empty etcd: etcdctl snapshot "+
		"save FILE, and etcdutl snapshot restore FILE --bump-revision %d --mark-compacted; or give --reuse-resource-versions "+
		"if there are no such clients", p.Etcd, p.Directory, p.Directory-p.Etcd+skipped)
}

// skipped is how many revisions a prepared etcd is above the directory.
const skipped = 1_000_000

// next says how to go on.
func (f *migrateFlags) next(io streams, done migrate.Result) {
	if isEtcd(f.from) {
		io.printf("the server begins after resourceVersion %d; to start it: gapless serve --data-dir %s\n", done.Revision, f.to)
		return
	}
	io.printf("etcd is at revision %d; to start a replica, with the certificates of the directory:\n"+
		"  mkdir replica-1 && cp -a %s/pki replica-1/ && gapless serve --data-dir replica-1 --etcd-servers %s\n",
		done.Revision, f.from, f.to)
}
