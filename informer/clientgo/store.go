package clientgo

import (
	"fmt"
	"maps"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// store is client-go's indexer with two differences. When an index function fails, its
// object is left out of that index; client-go's store panics (thread_safe_store.go
// updateIndices). And it knows whether something other than the informer wrote into it,
// so that the next re-list replaces everything.
type store struct {
	cache.Indexer

	// mu guards all below, and orders the writes of others with replaceAll.
	mu      sync.Mutex
	given   cache.Indexers // as passed by the caller, without guarded
	written bool           // by something other than the informer
}

func newStore(indexers cache.Indexers) *store {
	return &store{
		Indexer: cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, guarded(indexers)),
		given:   maps.Clone(indexers),
	}
}

// guarded wraps index functions so that errors and panics are logged.
func guarded(indexers cache.Indexers) cache.Indexers {
	all := cache.Indexers{}
	for name, f := range indexers {
		all[name] = func(object any) (values []string, err error) {
			defer func() {
				if v := recover(); v != nil {
					utilruntime.HandleError(fmt.Errorf("index %q leaves out an object: panic: %v", name, v))
					values, err = nil, nil
				}
			}()
			values, err = f(object)
			if err != nil {
				utilruntime.HandleError(fmt.Errorf("index %q leaves out an object: %w", name, err))
			}
			return values, nil
		}
	}
	return all
}

// AddIndexers adds indexes and fills them from the stored objects.
func (s *store) AddIndexers(indexers cache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Indexer.AddIndexers(guarded(indexers)); err != nil {
		return err
	}
	if s.given == nil {
		s.given = cache.Indexers{}
	}
	maps.Copy(s.given, indexers)
	return nil
}

// GetIndexers returns the index functions as passed by the caller.
func (s *store) GetIndexers() cache.Indexers {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.given)
}

// Index returns the objects that share a value of an index with object, or the error of
// the index function.
func (s *store) Index(name string, object any) ([]any, error) {
	if f := s.GetIndexers()[name]; f != nil {
		if _, err := f(object); err != nil {
			return nil, err
		}
	}
	return s.Indexer.Index(name, object)
}

// Add stores an object until the informer gets another state of it or lists again.
func (s *store) Add(object any) error { return s.write(s.Indexer.Add, object) }

// Update does the same as Add.
func (s *store) Update(object any) error { return s.write(s.Indexer.Update, object) }

// Delete removes an object until the informer gets another state of it or lists again.
func (s *store) Delete(object any) error { return s.write(s.Indexer.Delete, object) }

func (s *store) write(how func(any) error, object any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = true
	return how(object)
}

// Replace replaces all objects until the informer lists again.
func (s *store) Replace(objects []any, rv string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = true
	return s.Indexer.Replace(objects, rv)
}

// foreign reports whether something other than the informer wrote into the store.
func (s *store) foreign() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// replaceAll, set and remove are the informer's writes. They cannot fail because every
// object of the informer has a name.
func (s *store) replaceAll(objects []any, rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = false
	must(s.Indexer.Replace(objects, rv))
}

// bookmark sets the resource version of the store, which it has from client-go 0.36 on.
func (s *store) bookmark(rv string) {
	if versioned, is := s.Indexer.(interface{ Bookmark(rv string) }); is {
		versioned.Bookmark(rv)
	}
}

func (s *store) set(object any) { must(s.Indexer.Update(object)) }

func (s *store) remove(key string) { must(s.Indexer.Delete(cache.DeletedFinalStateUnknown{Key: key})) }

func must(err error) {
	if err != nil {
		panic("clientgo: an object without a key: " + err.Error())
	}
}
