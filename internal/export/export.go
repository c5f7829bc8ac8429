// Package export writes the objects of a server as manifests that gapless serve --from, or
// kubectl apply, can read.
//
// An [Exporter] reads the objects page by page, removes what the server writes, and passes
// them to a sink. A sink is a stream of documents ([Stream]) or a directory with a file per
// object ([Directory]). [Options] select objects. A [Result] counts what was written and what
// was left out.
package export

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

// pageSize is how many objects one request reads.
const pageSize = 500

// Options select what is exported.
type Options struct {
	// Namespace limits the export to a namespace: the Namespace and the objects in it; "":
	// everything.
	Namespace string
	// Selector is a label selector; "": all.
	Selector string
	// Resources are the names of resources to export, and Without those to leave out, as
	// kubectl accepts them; no Resources: all.
	Resources, Without []string
	// Status keeps the status of objects.
	Status bool
	// All exports also what servers and controllers create by themselves: bootstrap objects,
	// events, leases, tokens, and objects with a controller.
	All bool
}

// Result counts objects.
type Result struct {
	Written int
	// Left says how many objects were left out, by the reason.
	Left map[string]int
}

// Sink takes the manifests.
type Sink interface {
	// Put writes an object, whose text is YAML.
	Put(r client.Resource, namespace, name string, text []byte) error
}

// Exporter exports the objects of one server.
type Exporter struct {
	Client *client.Client
	Options
	// Progress is called after each object that was read, with how many were; nil is allowed.
	Progress func(read int64)

	read int64
}

// Run exports everything into a sink. It reads the resources one after the other:
// Namespaces, then definitions, then by group and name. Errors: those of the client,
// *client.NoResourceError, and those of the sink.
func (e *Exporter) Run(ctx context.Context, to Sink) (Result, error) {
	result := Result{Left: map[string]int{}}
	resources, err := e.resources(ctx)
	if err != nil {
		return result, err
	}
	for _, r := range resources {
		if err := e.export(ctx, r, to, &result); err != nil {
			return result, err
		}
	}
	return result, nil
}

// resources returns the resources to export in their order.
func (e *Exporter) resources(ctx context.Context) ([]client.Resource, error) {
	all, err := e.Client.Resources(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the resources: %w", err)
	}
	wanted, err := e.named(ctx, e.Resources)
	if err != nil {
		return nil, err
	}
	without, err := e.named(ctx, e.Without)
	if err != nil {
		return nil, err
	}
	var chosen []client.Resource
	seen := map[string]bool{}
	for _, r := range all { // of each the preferred version comes first
		name := r.GroupResource().String()
		if seen[name] || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "create") {
			continue
		}
		seen[name] = true
		switch {
		case without[name]:
		case len(wanted) > 0 && !wanted[name]:
		case len(wanted) == 0 && (view(r) || transient(r) && !e.All):
		case e.Namespace != "" && !r.Namespaced && name != "namespaces":
		default:
			chosen = append(chosen, r)
		}
	}
	slices.SortFunc(chosen, func(a, b client.Resource) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return chosen, nil
}

// named returns the resources of these names.
func (e *Exporter) named(ctx context.Context, names []string) (map[string]bool, error) {
	found := make(map[string]bool, len(names))
	for _, name := range names {
		r, err := e.Client.ResourceFor(ctx, name)
		if err != nil {
			return nil, err
		}
		found[r.GroupResource().String()] = true
	}
	return found, nil
}

// rank puts first what others need, so that kubectl apply can read the stream.
func rank(r client.Resource) int {
	switch r.GroupResource().String() {
	case "namespaces":
		return 0
	case "customresourcedefinitions.apiextensions.k8s.io":
		return 1
	}
	return 2
}

// export exports the objects of a resource, page by page.
func (e *Exporter) export(ctx context.Context, r client.Resource, to Sink, result *Result) error {
	o := metav1.ListOptions{LabelSelector: e.Selector, Limit: pageSize}
	if !r.Namespaced && e.Namespace != "" {
		o.FieldSelector = "metadata.name=" + e.Namespace
		o.LabelSelector = "" // the namespace of what is selected
	}
	for {
		meta, err := e.Client.List(ctx, r.In(e.Namespace), o, func(item []byte) error { return e.put(r, item, to, result) })
		expired := kube.WhyExpired(err)
		if expired != nil && expired.Reason == kube.ReasonDefinition && o.Continue == "" {
			result.Left[undefined]++ // lists are about a time in the past
			return nil
		}
		if kube.Classify(err) == kube.OutcomeExpired {
			return fmt.Errorf("%w: the server removed the history of the list while it was read: export again", err)
		}
		if err != nil || meta.Continue == "" {
			return err
		}
		o.Continue = meta.Continue
	}
}

// put passes one object to the sink, unless it is left out.
func (e *Exporter) put(r client.Resource, item []byte, to Sink, result *Result) error {
	if e.read++; e.Progress != nil {
		e.Progress(e.read)
	}
	tree, err := decode(item)
	if err != nil {
		return fmt.Errorf("decode an object of %s: %w", r.GroupResource(), err)
	}
	// items of a typed list have none
	tree["apiVersion"], tree["kind"] = r.GroupVersion().String(), cmp.Or(r.Kind, fmt.Sprint(tree["kind"]))
	if why := e.clean(r, tree); why != "" {
		result.Left[why]++
		return nil
	}
	meta, _ := tree["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	if name == "" {
		return fmt.Errorf("an object of %s has no name", r.GroupResource())
	}
	text, err := encode(tree)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", r.GroupResource(), name, err)
	}
	result.Written++
	return to.Put(r, namespace, name, text)
}
