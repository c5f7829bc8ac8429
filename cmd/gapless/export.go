package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/cmd/gapless/past"
	"github.com/gapless-io/gapless/cmd/gapless/progress"
	"github.com/gapless-io/gapless/internal/export"
	history "github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// exportFlags are the flags of `gapless export`.
type exportFlags struct {
	connection
	export.Options

	allNamespaces bool
	force         bool
	quiet         bool
	at            string
}

func newExport(io streams) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export [DIR|-]",
		Short: "Write the objects of a server as manifests",
		Long: `Write the objects of any Kubernetes API server as manifests, for
gapless serve --from: to a directory with one file per object, or as a stream of
documents to standard output.

It leaves out what servers write (uid, resourceVersion, status, …) and what they
and their controllers create by themselves. Two exports of the same objects are
equal, byte for byte.

With --at, all objects are as they were at that time, which only gapless knows:
gapless serve, its replicas, and gapless relay.`,
		Example: `  # everything, one file per object
  gapless export manifests

  # only the objects of a namespace, to standard output
  gapless export -n shop

  # as they were at five past two, from a server that keeps the past
  gapless export manifests --at 14:05

  # some resources, with their status
  gapless export - --resource pods,nodes --status`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("name one directory, or - for standard output; resources are named by --resource")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args, io.quieted(f.quiet)) },
	}
	f.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "only this namespace and the objects in it")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false,
		"all namespaces and the objects outside of them, which is the default")
	flags.StringVarP(&f.Selector, "selector", "l", "", "label selector, like app=web,tier!=test")
	flags.StringSliceVar(&f.Resources, "resource", nil,
		"resources to export, like pods,deployments.apps (default all that can be listed and created)")
	flags.StringSliceVar(&f.Without, "exclude", nil, "resources to leave out")
	flags.BoolVar(&f.Status, "status", false, "keep the status of objects")
	flags.BoolVar(&f.All, "all", false,
		"also what servers and controllers create by themselves: bootstrap objects, events, leases, tokens, "+
			"objects with a controller")
	flags.StringVar(&f.at, "at", "", "as it was at: 14:05, 2h (ago), 2026-11-25 14:05, or a time in RFC 3339")
	_ = flags.SetAnnotation("at", withoutVariable, []string{"true"}) // it fails for unknown flags only
	flags.BoolVar(&f.force, "force", false, "replace the directories cluster and namespaces of a former export in DIR")
	quietFlag(flags, &f.quiet)
	return cmd
}

func (f *exportFlags) run(ctx context.Context, args []string, io streams) error {
	if _, err := labels.Parse(f.Selector); err != nil {
		return &usageError{fmt.Errorf("--selector %q: %w", f.Selector, err)}
	}
	if f.allNamespaces && f.namespace != "" {
		return &usageError{errors.New("give one of --namespace and --all-namespaces")}
	}
	f.Namespace = f.namespace
	at, err := f.moment()
	if err != nil {
		return &usageError{err}
	}
	cfg, _, err := f.restConfig()
	if err != nil {
		return err
	}
	c, err := client.New(cfg)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	if !at.IsZero() {
		c = past.At(c, at)
	}
	toTerminal := (len(args) == 0 || args[0] == "-") && isTerminal(io.out) // which a bar would disturb
	shown := progress.New(io.quieted(toTerminal).err, "read", progress.Objects)
	exporter := &export.Exporter{Client: c, Options: f.Options, Progress: func(read int64) { shown.Set(read, 0) }}
	var done export.Result
	if len(args) == 0 || args[0] == "-" {
		out := bufio.NewWriter(io.out)
		if done, err = exporter.Run(ctx, export.Stream{To: out}); err == nil {
			err = out.Flush()
		}
	} else {
		done, err = f.toDirectory(ctx, exporter, args[0])
	}
	shown.End()
	if err != nil {
		return f.explained(err)
	}
	io.notef("exported %d objects\n", done.Written)
	for _, why := range slices.Sorted(maps.Keys(done.Left)) {
		io.notef("  left out %d %s\n", done.Left[why], why)
	}
	return nil
}

// moment reads --at; zero: it was not given.
func (f *exportFlags) moment() (time.Time, error) {
	if f.at == "" {
		return time.Time{}, nil
	}
	at, err := history.ParseTime(f.at, time.Now())
	if err != nil {
		return at, fmt.Errorf("--at %w", err)
	}
	return at, nil
}

// explained adds to an error of an export of the past what it means, and what to do.
func (f *exportFlags) explained(err error) error {
	expired := kube.WhyExpired(err)
	switch {
	case f.at == "":
		return err
	case errors.Is(err, past.ErrPresent):
		return fmt.Errorf("%w: the server keeps no past of this resource; leave it out with --exclude, or ask gapless serve or "+
			"gapless relay", err)
	case expired != nil && !expired.OldestTime.IsZero():
		return fmt.Errorf("history goes back to %s only: %s", expired.OldestTime.Local().Format(time.DateTime), expired.Why())
	case expired != nil:
		return fmt.Errorf("history does not go back so far: %s", expired.Why())
	}
	return err
}

// toDirectory exports to a directory. After an error it is as it was before.
func (f *exportFlags) toDirectory(ctx context.Context, exporter *export.Exporter, path string) (export.Result, error) {
	dir, err := export.NewDirectory(path, export.Replace(f.force))
	if errors.Is(err, export.ErrNotEmpty) {
		return export.Result{}, fmt.Errorf("%w: use another one, or --force to replace a former export in it", err)
	}
	if err != nil {
		return export.Result{}, err
	}
	done, err := exporter.Run(ctx, dir)
	if err != nil {
		return done, errors.Join(err, dir.Abort())
	}
	return done, dir.Finish()
}
