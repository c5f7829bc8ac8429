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
		Short: "Print every change of a resource, and never die of 410",
		Long: `Print the objects of a resource and then every change of them, from any
Kubernetes API server, until it is interrupted.

It is like kubectl get --watch, but it goes on when the connection breaks, when
the server restarts, and when the server has forgotten the history that it needs
(410 Gone): then it lists again, and prints only what has changed in between.
What went wrong is noted on standard error.`,
		Example: `  # pods of the current namespace, in the server's columns
  gapless watch pods

  # one object per line, for jq
  gapless watch deployments.apps -A -o json | jq -r '.type + " " + .object.metadata.name'

  # a custom resource, by its short name and a label
  gapless watch bk -n shop -l tier=gold -o wide`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("say what to watch, for example: gapless watch pods")
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
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace (default the context's)")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "all namespaces")
	flags.StringVarP(&f.selector, "selector", "l", "", "label selector, like app=web,tier!=test")
	flags.StringVar(&f.fieldSelector, "field-selector", "", "field selector, like status.phase=Running")
	flags.StringVarP(&f.output, "output", "o", "", "form of the output: wide, json, yaml or name (default a table)")
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag stands above
	}
	return cmd
}

// complete lists what can be watched.
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

// selectors checks what is to be selected. Errors are those of usage.
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
		return fmt.Errorf("watch %s: the server does not let it be watched", args[0])
	}
	w := &watching{
		err:     io.err,
		backend: &plain{client: c, of: resource.In(namespace), labels: byLabels.String(), fields: byFields.String()},
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

// run prints until ctx ends, or the output takes no more.
func (w *watching) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex // incidents come from several goroutines
	opts := []informer.Option{informer.OnError(func(i informer.Incident) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w.err, note(i))
	})}
	if w.printer.tables() {
		opts = append(opts, informer.NoStreamingLists()) // whose end a table does not show
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

// outputError is an output that takes no more.
type outputError struct{ cause error }

func (e *outputError) Error() string { return "write the output: " + e.cause.Error() }

func (e *outputError) Unwrap() error { return e.cause }

// note says what went wrong, and what is done about it.
func note(i informer.Incident) string {
	if i.Kind == informer.Gone || i.Kind == informer.SilentGone {
		why := ""
		if e := kube.WhyExpired(i.Err); e != nil {
			why = " (" + e.Why() + ")"
		}
		return fmt.Sprintf("# 410 Gone: the server has forgotten what came after resourceVersion %s%s. Listing again; only what has changed is printed.", i.RV, why)
	}
	if broken, ok := errors.AsType[*url.Error](i.Err); ok {
		i.Err = broken.Err // the URL is long, and always the same
	}
	return "# " + i.String()
}
