package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// remaining is what a namespace under deletion still has.
type remaining struct {
	objects    map[kinds.GroupResource]int
	finalizers map[string]int // in how many objects each is
	errors     []string       // what could not be deleted
	// undiscovered says what other servers are not known to serve; nil: nothing.
	undiscovered error
}

func newRemaining() *remaining {
	return &remaining{objects: map[kinds.GroupResource]int{}, finalizers: map[string]int{}}
}

// add counts an object.
func (r *remaining) add(gr kinds.GroupResource, o *wire.Object) {
	r.objects[gr]++
	for _, finalizer := range o.Finalizers() {
		r.finalizers[finalizer]++
	}
}

// condition is a condition in the form that it has in a namespace, but for its time.
type condition struct {
	name            corev1.NamespaceConditionType
	status          corev1.ConditionStatus
	reason, message string
}

// conditions returns what a namespace under deletion says about its content (kubernetes
// pkg/controller/namespace/deletion/status_condition_utils.go). Discovery of what this server serves is a call in this
// process, and cannot fail.
func (r *remaining) conditions() []condition {
	all := []condition{
		{
			corev1.NamespaceDeletionDiscoveryFailure, corev1.ConditionFalse, "ResourcesDiscovered",
			"All resources successfully discovered",
		},
		{
			corev1.NamespaceDeletionGVParsingFailure, corev1.ConditionFalse, "ParsedGroupVersions",
			"All legacy kube types successfully parsed",
		},
		{
			corev1.NamespaceDeletionContentFailure, corev1.ConditionFalse, "ContentDeleted",
			"All content successfully deleted, may be waiting on finalization",
		},
		{corev1.NamespaceContentRemaining, corev1.ConditionFalse, "ContentRemoved", "All content successfully removed"},
		{corev1.NamespaceFinalizersRemaining, corev1.ConditionFalse, "ContentRemoved", "All content successfully removed"},
	}
	fail := func(at int, reason, message string) {
		all[at].status, all[at].reason, all[at].message = corev1.ConditionTrue, reason, message
	}
	if r.undiscovered != nil {
		fail(0, "DiscoveryFailed", r.undiscovered.Error())
	}
	if n := len(r.errors); n > 0 {
		slices.Sort(r.errors)
		fail(2, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", n, strings.Join(r.errors, ", ")))
	}
	var texts []string
	for gr, n := range r.objects {
		texts = append(texts, fmt.Sprintf("%s.%s has %d resource instances", gr.Resource, gr.Group, n))
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		fail(3, "SomeResourcesRemain", "Some resources are remaining: "+strings.Join(texts, ", "))
	}
	texts = nil
	for finalizer, n := range r.finalizers {
		texts = append(texts, fmt.Sprintf("%s in %d resource instances", finalizer, n))
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		fail(4, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+strings.Join(texts, ", "))
	}
	return all
}

// report writes the conditions into a namespace. One that says the same as before keeps
// its time, and one whose status is the same too: then nothing may have changed.
func (r *remaining) report(u *unstructured.Unstructured) {
	old, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return // the type has checked it: it is a list
	}
	for _, c := range r.conditions() {
		i := slices.IndexFunc(old, func(other any) bool {
			m, is := other.(map[string]any)
			return is && m["type"] == string(c.name)
		})
		if i < 0 {
			old = append(old, map[string]any{"type": string(c.name)})
			i = len(old) - 1
		}
		m, is := old[i].(map[string]any)
		if !is {
			continue // IndexFunc has checked it
		}
		if m["status"] != string(c.status) {
			m["lastTransitionTime"] = time.Now().UTC().Format(time.RFC3339)
		}
		m["status"], m["reason"], m["message"] = string(c.status), c.reason, c.message
	}
	_ = unstructured.SetNestedSlice(u.Object, old, "status", "conditions") // status is an object: it was read
}
