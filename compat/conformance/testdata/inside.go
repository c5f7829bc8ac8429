package clientgo

import "k8s.io/client-go/tools/cache"

// Started reports whether Run was called.
func (i *sharedInformer[T]) Started() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.running != nil
}

// Handlers is how many handlers were added and not removed.
func (i *sharedInformer[T]) Handlers() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.registrations)
}

// Registered reports whether a handler was added here and not removed.
func (i *sharedInformer[T]) Registered(handle cache.ResourceEventHandlerRegistration) bool {
	r, is := handle.(*registration)
	if !is {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	_, is = i.registrations[r]
	return is
}
