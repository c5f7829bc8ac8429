package clientgo

import (
	"reflect"

	"k8s.io/client-go/tools/cache"
)

// synced says once that an informer or a handler has synced. It has the methods that the
// client-go of the program asks for: HasSynced, and from 0.36 on HasSyncedChecker. The type
// of that one's result is unknown to 0.35, where a method that names it does not compile.
// Therefore the methods are promoted from client-go's interface, and their receiver is one
// of client-go's own types: an empty queue, which has synced once it is replaced.
type synced struct {
	cache.ResourceEventHandlerRegistration
	queue *cache.DeltaFIFO
}

func newSynced(name string) synced {
	var o cache.DeltaFIFOOptions
	// The name of the checker. 0.35 has neither the field nor the checker.
	if field := reflect.ValueOf(&o).Elem().FieldByName("Name"); field.IsValid() {
		field.SetString(name)
	}
	queue := cache.NewDeltaFIFOWithOptions(o)
	return synced{queue, queue}
}

// done makes HasSynced true. It may be called again.
func (s synced) done() {
	if err := s.queue.Replace(nil, ""); err != nil {
		panic("clientgo: an empty queue: " + err.Error()) // the errors are those of objects
	}
}
