package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/cmd/gapless/progress"
	"github.com/gapless-io/gapless/internal/export"
)

// exportFlags are the flags of `gapless export`.
type exportFlags struct {
	connection
	export.Options

	allNamespaces bool
	force         bool
	quiet         bool
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
equal, byte for byte.`,
		Example: `  # everything, one file per object
  gapless export manifests

  # only the objects of a namespace, to standard output
  gapless export -n shop

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
	cfg, _, err := f.restConfig()
	if err != nil {
		return err
	}
	c, err := client.New(cfg)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
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
		return err
	}
	io.notef("exported %d objects\n", done.Written)
	for _, why := range slices.Sorted(maps.Keys(done.Left)) {
		io.notef("  left out %d %s\n", done.Left[why], why)
	}
	return nil
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
