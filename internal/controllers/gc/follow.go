package gc

import (
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Load implements registry.Collector: every object with owners is handled once, since
// what it owned by may have gone while nobody looked.
func (c *Collector) Load(gr kinds.GroupResource, objects iter.Seq[*wire.Object]) {
	for o := range objects {
		c.Changed(gr, nil, o)
	}
}

// Changed implements registry.Collector. For most objects, which have no owners and are
// not under deletion, it does nothing.
func (c *Collector) Changed(gr kinds.GroupResource, before, after *wire.Object) {
	if after == nil {
		c.graph.remove(before.UID())
		return
	}
	if ignored(gr) || !after.Owned() && !after.Deleting() && (before == nil || !before.Owned()) {
		return
	}
	same := before != nil && wire.SameOwnerReferences(before, after)
	if same && !after.Deleting() {
		return
	}
	waits := waitsOf(after)
	if same && before.Deleting() && waits == waitsOf(before) {
		return
	}
	c.graph.set(gr, after, after.OwnerReferences(), waits)
}

// Forget implements registry.Collector.
func (c *Collector) Forget(gr kinds.GroupResource) { c.graph.forget(gr) }

// Defined implements registry.Collector.
func (c *Collector) Defined() { c.graph.unpark() }

// ignored reports whether objects of a resource are never collected (kubernetes
// garbagecollector DefaultIgnoredResources).
func ignored(gr kinds.GroupResource) bool { return gr.Group == "" && gr.Resource == "events" }

// waitsOf returns what an object waits for. Of two finalizers, which validation does not
// allow, orphan wins (GraphBuilder.processTransitions).
func waitsOf(o *wire.Object) waiting {
	if !o.Deleting() {
		return waitsForNothing
	}
	finalizers := o.Finalizers()
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		return waitsForOrphans
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		return waitsForDeletion
	}
	return waitsForNothing
}
