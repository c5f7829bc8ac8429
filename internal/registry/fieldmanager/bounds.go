package fieldmanager

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/wire"
)

// Bounds of an object whose fields are managed, its managedFields included. The largest
// definitions in use have 20 000 fields. docs/limits.md has them.
const (
	// maxFields is how many members and items it may have inside, since upstream's library
	// needs up to 2 KB of memory for each.
	maxFields = 50_000
	// maxSquares bounds the sum of the squares of how many each object and list in it has:
	// upstream's library inserts them one by one into sorted lists, so that a ConfigMap with
	// 250 000 keys took a minute.
	maxSquares = 200_000_000
	// maxUnited bounds the product of the number of its managers and of the fields of all of
	// them: upstream's library unites the fields of managers one after the other, each time
	// anew. 1 600 managers with 8 fields each take 0.2 s.
	maxUnited = 20_000_000
)

// size is how large an object is for upstream's library.
type size struct{ fields, squares int }

// managed reports whether the fields of an object can be managed; nil can.
func managed(u *unstructured.Unstructured) bool {
	if u == nil {
		return true
	}
	var s size
	return s.add(u.Object) && unitable(u)
}

// unitable reports whether the fields of an object's managers can be united.
func unitable(u *unstructured.Unstructured) bool {
	found, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
	entries, is := found.([]any)
	if !is || len(entries) <= maxUnited/maxFields {
		return true
	}
	var of size
	return of.add(entries) && len(entries)*of.fields <= maxUnited
}

// add counts what a value has inside. It returns false when that is too much.
func (s *size) add(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		if !s.count(len(v)) {
			return false
		}
		for _, member := range v {
			if !s.add(member) {
				return false
			}
		}
	case []any:
		if !s.count(len(v)) {
			return false
		}
		for _, item := range v {
			if !s.add(item) {
				return false
			}
		}
	}
	return true
}

func (s *size) count(n int) bool {
	s.fields += n
	s.squares += n * n
	return s.fields <= maxFields && s.squares <= maxSquares
}

// tooLarge is the answer to a configuration of, or for, an object whose fields cannot be
// managed.
func tooLarge() error {
	return wire.TooLarge(
		"server-side apply takes objects with at most %d fields inside, 14 000 in one place, and about 1600 managers", maxFields)
}
