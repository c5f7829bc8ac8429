package plugins

// Shared is a part that a plugin gives to many objects. It stands in all of them as the same value, so that it is made
// once: nobody changes it there, nor removes what it does not have, since others read it meanwhile. It is safe for
// concurrent use. Under -tags invariants it panics if it was changed.
type Shared struct{ value, made map[string]any }

// NewShared returns a part that has a value, which the caller no longer changes.
func NewShared(value map[string]any) Shared { return Shared{value: value, made: original(value)} }

// Value returns the part, which the caller puts into an object as it is.
func (s Shared) Value() map[string]any {
	s.check()
	return s.value
}
