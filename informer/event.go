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

// The types of events. Resync is no change: it hands the current state over once
// more (see EveryResync).
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

// Event is what a handler is told: how the object's state differs from the one
// that this handler handled last. The objects are shared with the cache and with
// other handlers and must not be modified.
type Event[T Object] struct {
	Type EventType
	Key  Key
	// Old is the state that this handler handled last; the zero value for Added. For
	// Deleted it is the last state known of the object, which can be newer.
	Old T
	// New is the state now; the zero value for Deleted.
	New T
	// RV is the resource version of the change: of New, or of the deletion. For an
	// inferred deletion it is that of the list that no longer had the object.
	RV string
	// Initial says that the object was there when the informer or the handler began.
	Initial bool
	// Inferred says that nobody saw the deletion: the object was gone, or replaced by
	// one with another UID, when the informer looked again.
	Inferred bool
	// Merged is how many further changes this event stands for: 0 if it is one.
	Merged int
	// Attempt is 0 at first and counts the calls for this key that ended with an
	// error since the last success.
	Attempt int
}

// Object returns New, or Old for a deletion.
func (e Event[T]) Object() T {
	if e.Type == Deleted {
		return e.Old
	}
	return e.New
}
