package informer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Object is what an informer can hold: *corev1.Pod, *unstructured.Unstructured,
// or any pointer to a struct with a metav1.ObjectMeta in it.
type Object interface {
	comparable
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
	GetLabels() map[string]string
}

// Key names an object; Namespace is "" for cluster-scoped resources.
type Key = types.NamespacedName

// EventType says what happened to an object.
type EventType int

// The types of events. Resync is not a change: it re-delivers the current state (see
// EveryResync).
const (
	Added EventType = iota + 1
	Modified
	Deleted
	Resync
)

// String returns "Added", "Modified", "Deleted", "Resync".
func (t EventType) String() string {
	names := [...]string{"", "Added", "Modified", "Deleted", "Resync"}
	if t <= 0 || int(t) >= len(names) {
		return fmt.Sprintf("EventType(%d)", int(t))
	}
	return names[t]
}

// Event is one change as a handler gets it: the object's state, and the state that this
// handler handled last. The objects are shared with the cache and with other handlers and
// must not be modified.
type Event[T Object] struct {
	Type EventType
	Key  Key
	// Old is the state that this handler handled last; the zero value for Added. For
	// Deleted it is the last state known of the object, which can be newer.
	Old T
	// New is the state now; the zero value for Deleted.
	New T
	// RV is the resourceVersion of the change: of New, or of the deletion. For an
	// inferred deletion it is the version of the list that did not have the object.
	RV string
	// Initial says that the object existed when the informer or the handler started.
	Initial bool
	// Inferred says that no DELETED event came: when the state was read again, the object
	// was gone, or another object with its name had replaced it.
	Inferred bool
	// Merged is how many further changes this event stands for; 0: none.
	Merged int
	// Attempt is how many calls for this key have failed since the last success.
	Attempt int
}

// Object returns New, or Old for a deletion.
func (e Event[T]) Object() T {
	if e.Type == Deleted {
		return e.Old
	}
	return e.New
}
