package informer

import (
	"iter"

	"github.com/gapless-io/gapless/informer/internal/state"
)

// Turn is one step of the cache from one state to the next, as a mirror is told.
// It is valid during the call only.
type Turn[T Object] struct {
	// RV is the resource version of the state behind the step.
	RV string
	// Whole says that the whole state was read: what Changes does not name was looked
	// at and is as it was.
	Whole bool

	changes []change[T]
	tree    state.Tree[held[T]]
}

// Changes yields what the step changed, in order: the objects as they are now, and
// the zero value for what is gone. Another UID under the same name is both.
func (t Turn[T]) Changes() iter.Seq2[Key, T] {
	return func(yield func(Key, T) bool) {
		for _, c := range t.changes {
			if !yield(c.Key, c.New.Get()) {
				return
			}
		}
	}
}

// Changed is how many pairs Changes yields.
func (t Turn[T]) Changed() int { return len(t.changes) }

// All yields the state behind the step, by namespace and name.
func (t Turn[T]) All() iter.Seq2[Key, T] {
	return (&snapshot[T]{tree: t.tree}).all()
}

// Len is how many objects there are behind the step.
func (t Turn[T]) Len() int { return t.tree.Len() }

// Mirror lets f keep a copy of the cache in another form. It is told each step,
// before any handler is: a handler that is called sees a copy that is at its event's
// state or newer. f is called by the goroutine of Run, which waits for it; it must
// be quick and must not panic. There is one mirror, and it is set before Run.
func (i *Informer[T]) Mirror(f func(Turn[T])) { i.mirror = f }

// Transform returns a source whose objects go through f before the cache takes
// them: once per version, which f may modify and return, or replace. An error
// concerns that object only; it is an incident (Undecodable), and the cache keeps
// the state it has. namespace, name, UID and resource version must stay.
func (s Source[T]) Transform(f func(T) (T, error)) Source[T] {
	s.identity = altered[T](s.identity)
	decode := s.decode
	if s.alone != nil {
		decode, s.alone = s.alone, nil
	}
	s.decode = func(object []byte) (T, error) {
		o, err := decode(object)
		if err != nil {
			return o, err
		}
		return f(o)
	}
	return s
}
