package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// heldBack is how many versions wait for a slow reader of the output before
// reading from the server stops.
const heldBack = 1024

// watchFlags are the flags of `gapless watch`.
type watchFlags struct {
	connection
	allNamespaces bool
	selector      string
	fieldSelector string
	output        string
}

// outputs are the values of --output.
func outputs() []string { return []string{"wide", "json", "yaml", "name"} }

func newWatch(io streams) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch RESOURCE [NAME]",
		Short: "Print every change of a resource, also after 410 Gone",
		Long: `Print the objects of a resource, and then every change to them, from any
Kubernetes API server, until interrupted.

Unlike kubectl get --watch, it continues when the connection breaks, when the
server restarts, and when the server no longer has the history that it needs
(410 Gone): then it lists again, and prints only the differences.
Errors are printed to standard error.`,
		Example: `  # pods of the current namespace, in the server's columns
  gapless watch pods

  # one object per line, for jq
  gapless watch deployments.apps -A -o json | jq -r '.type + " " + .object.metadata.name'

  # a custom resource, by its short name and a label
  gapless watch bk -n shop -l tier=gold -o wide`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name a resource, for example: gapless watch pods")
			}
			return cobra.MaximumNArgs(2)(cmd, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return f.complete(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args, io) },
	}
	f.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace (default that of the context)")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "all namespaces")
	flags.StringVarP(&f.selector, "selector", "l", "", "label selector, like app=web,tier!=test")
	flags.StringVar(&f.fieldSelector, "field-selector", "", "field selector, like status.phase=Running")
	flags.StringVarP(&f.output, "output", "o", "", "output format: wide, json, yaml or name (default a table)")
	if err := cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(outputs(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag stands above
	}
	return cmd
}

// complete lists the resources that can be watched.
func (f *watchFlags) complete(ctx context.Context, args []string) []string {
	cfg, _, err := f.restConfig()
	if err != nil || len(args) > 0 {
		return nil
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil
	}
	defer c.CloseIdle()
	resources, err := c.Resources(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, r := range resources {
		if r.Preferred && slices.Contains(r.Verbs, "watch") {
			names = append(names, r.GroupResource().String())
		}
	}
	return names
}

// selectors parses the selectors. Its errors are usage errors.
func (f *watchFlags) selectors(args []string) (labels.Selector, fields.Selector, error) {
	if f.output != "" && !slices.Contains(outputs(), f.output) {
		return nil, nil, fmt.Errorf("--output %q: want one of %s", f.output, strings.Join(outputs(), ", "))
	}
	if f.allNamespaces && f.namespace != "" {
		return nil, nil, errors.New("give one of --namespace and --all-namespaces")
	}
	byLabels, err := labels.Parse(f.selector)
	if err != nil {
		return nil, nil, fmt.Errorf("--selector %q: %w", f.selector, err)
	}
	byFields, err := fields.ParseSelector(f.fieldSelector)
	if err != nil {
		return nil, nil, fmt.Errorf("--field-selector %q: %w", f.fieldSelector, err)
	}
	if len(args) > 1 {
		byFields = fields.AndSelectors(byFields, fields.OneTermEqualSelector("metadata.name", args[1]))
	}
	return byLabels, byFields, nil
}

func (f *watchFlags) run(ctx context.Context, args []string, io streams) error {
	byLabels, byFields, err := f.selectors(args)
	if err != nil {
		return &usageError{err}
	}
	cfg, namespace, err := f.restConfig()
	if err != nil {
		return err
	}
	if f.allNamespaces {
		namespace = ""
	}
	c, err := client.New(cfg)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	resource, err := c.ResourceFor(ctx, args[0])
	if err != nil {
		return fmt.Errorf("watch %s: %w", args[0], err)
	}
	if !slices.Contains(resource.Verbs, "watch") {
		return fmt.Errorf("watch %s: the server does not support watching it", args[0])
	}
	w := &watching{
		err: io.err,
		backend: &plain{
			client: c.As(client.Form{Typed: true}), of: resource.In(namespace), labels: byLabels.String(),
			fields: byFields.String(),
		},
		printer: newPrinter(f.output, io.out, resource, f.allNamespaces && resource.Namespaced),
	}
	return w.run(ctx)
}

// watching is one `gapless watch`.
type watching struct {
	err     io.Writer
	backend *plain
	printer printer
}

// run prints until ctx ends, or a write to the output fails.
func (w *watching) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex // incidents come from several goroutines
	report := informer.OnError(func(i informer.Incident) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w.err, note(i))
	})
	// A first request that is refused is wrong, like a field selector that the resource
	// does not have. Later requests are repeated without end.
	opts := []informer.Option{report, informer.Stop4xx()}
	if w.printer.tables() {
		opts = append(opts, informer.NoStreamingLists()) // tables do not show where they end
	}
	inf := informer.New(w.source(), opts...)
	registration := inf.Handle(func(_ context.Context, e informer.Event[*seen]) error {
		if err := w.printer.event(e); err != nil {
			stop(&outputError{err})
		}
		return nil
	}, informer.Every(heldBack, informer.Block))
	var flusher sync.WaitGroup
	defer flusher.Wait()
	defer stop(nil)
	flusher.Go(func() { // ends with ctx
		if registration.WaitSynced(ctx) == nil {
			if err := w.printer.synced(); err != nil {
				stop(&outputError{err})
			}
		}
	})
	err := inf.Run(ctx)
	if broken, ok := errors.AsType[*outputError](context.Cause(ctx)); ok {
		return broken
	}
	return err
}

func (w *watching) source() informer.Source[*seen] {
	var backend informer.Backend = w.backend
	if w.printer.tables() {
		backend = &tables{plain: w.backend, columns: w.printer.columns}
	}
	return informer.From(w.backend.of.String(), backend, decodeSeen)
}

// outputError is a failed write to the output.
type outputError struct{ cause error }

func (e *outputError) Error() string { return "write the output: " + e.cause.Error() }

func (e *outputError) Unwrap() error { return e.cause }

// note formats an incident for people.
func note(i informer.Incident) string {
	if i.Kind == informer.Gone || i.Kind == informer.SilentGone {
		why := ""
		if e := kube.WhyExpired(i.Err); e != nil {
			why = " (" + e.Why() + ")"
		}
		return fmt.Sprintf(
			"# 410 Gone: the server no longer has the history after resourceVersion %s%s. Listing again; only "+
				"differences are printed.", i.RV, why)
	}
	if broken, ok := errors.AsType[*url.Error](i.Err); ok {
		i.Err = broken.Err // the URL is long, and always the same
	}
	return "# " + i.String()
}
