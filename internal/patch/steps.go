package patch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Limits of all steps of one JSON patch. They bound its time to some tenths of a second,
// and its memory to that of a few objects.
const (
	// maxMoved is how many items of lists may be moved, because one was inserted before them
	// or removed. 10 000 insertions at the front of an empty list move 50 million.
	maxMoved = 60_000_000
	// maxCopied bounds the bytes, and maxCopiedParts the objects and lists, that are
	// copied: a few steps can copy an object into itself again and again.
	maxCopied      = 4 * kinds.MaxObjectBytes
	maxCopiedParts = 2 * kinds.MaxParts
	// maxDepth is how deep JSON may nest (encoding/json).
	maxDepth = 10_000
)

var (
	errMissing = errors.New("missing value")
	errIndex   = errors.New("invalid index referenced")
	errTest    = errors.New("test failed")
)

// steps applies a JSON patch to a document.
type steps struct {
	root   any
	moved  int
	copied int
	parts  int
}

// run applies the steps. Where upstream's library differs from RFC 6902, it does the same
// as the library: a missing member can be replaced and tested for null, and indexes below
// zero count from the end.
func (s *steps) run(all jsonpatch.Patch) error {
	for _, o := range all {
		if err := s.step(o); err != nil {
			return err
		}
		switch {
		case s.moved > maxMoved:
			return wire.TooLarge("the patch moves more than %d items of lists", maxMoved)
		case s.copied > maxCopied || s.parts > maxCopiedParts:
			return wire.TooLarge("the patch copies more than %d bytes, or %d objects and lists", maxCopied, maxCopiedParts)
		}
	}
	return nil
}

func (s *steps) step(o jsonpatch.Operation) error {
	path, err := o.Path()
	if err != nil {
		return err
	}
	switch kind := o.Kind(); kind {
	case "add":
		value, err := valueOf(o)
		if err != nil {
			return err
		}
		return s.add(path, value)
	case "remove":
		_, err := s.take(path)
		return err
	case "replace":
		return s.replace(path, o)
	case "move":
		from, err := o.From()
		if err != nil {
			return err
		}
		value, err := s.take(from)
		if err != nil {
			return err
		}
		return s.add(path, value)
	case "copy":
		from, err := o.From()
		if err != nil {
			return err
		}
		value, err := s.get(from)
		if err != nil {
			return err
		}
		value, err = s.copy(value, 0)
		if err != nil {
			return err
		}
		return s.add(path, value)
	case "test":
		return s.test(path, o)
	default:
		return fmt.Errorf("unexpected kind: %s", kind)
	}
}

// valueOf returns the value of a step; a missing one is null.
func valueOf(o jsonpatch.Operation) (any, error) {
	raw := o["value"]
	if raw == nil {
		return nil, nil
	}
	return parse(*raw)
}

// place is a member of an object or an item of a list.
type place struct {
	in  any
	key string
}

// find returns the place that a path names; all of the path but its last part must exist.
func (s *steps) find(path string) (place, error) {
	split := strings.Split(path, "/")
	if len(split) < 2 || len(split) > maxDepth {
		return place{}, fmt.Errorf("the path %.100q: %w", path, errMissing)
	}
	for i, part := range split {
		split[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
	}
	in := s.root
	for _, part := range split[1 : len(split)-1] {
		var err error
		if in, err = getFrom(in, part); err != nil {
			return place{}, err
		}
	}
	switch in.(type) {
	case map[string]any, *list:
		return place{in, split[len(split)-1]}, nil
	}
	return place{}, fmt.Errorf("the path %.100q: %w", path, errMissing)
}

// getFrom returns a member of an object or an item of a list; nil for a missing member.
func getFrom(in any, key string) (any, error) {
	switch in := in.(type) {
	case map[string]any:
		return in[key], nil
	case *list:
		i, err := index(key, len(in.items))
		if err != nil {
			return nil, err
		}
		return in.items[i], nil
	}
	return nil, errMissing
}

// index reads an index below n.
func index(key string, n int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return 0, fmt.Errorf("%s of %d: %w", key, n, errIndex)
	}
	return i, nil
}

func (s *steps) get(path string) (any, error) {
	at, err := s.find(path)
	if err != nil {
		return nil, err
	}
	return getFrom(at.in, at.key)
}

func (s *steps) add(path string, value any) error {
	at, err := s.find(path)
	if err != nil {
		return err
	}
	switch in := at.in.(type) {
	case map[string]any:
		in[at.key] = value
	case *list:
		i := len(in.items)
		if at.key != "-" {
			if i, err = index(at.key, len(in.items)+1); err != nil {
				return err
			}
		}
		s.moved += len(in.items) - i
		in.items = slices.Insert(in.items, i, value)
	}
	return nil
}

// take removes a value and returns it.
func (s *steps) take(path string) (any, error) {
	at, err := s.find(path)
	if err != nil {
		return nil, err
	}
	switch in := at.in.(type) {
	case map[string]any:
		value, found := in[at.key]
		if !found {
			return nil, fmt.Errorf("the path %.100q: %w", path, errMissing)
		}
		delete(in, at.key)
		return value, nil
	case *list:
		i, err := index(at.key, len(in.items))
		if err != nil {
			return nil, err
		}
		value := in.items[i]
		s.moved += len(in.items) - i
		in.items = slices.Delete(in.items, i, i+1)
		return value, nil
	}
	return nil, errMissing
}

func (s *steps) replace(path string, o jsonpatch.Operation) error {
	value, err := valueOf(o)
	if err != nil {
		return err
	}
	if path == "" {
		switch value.(type) {
		case map[string]any, *list:
			s.root = value
			return nil
		}
		return fmt.Errorf("the document can be replaced by an object or a list only: %w", errMissing)
	}
	at, err := s.find(path)
	if err != nil {
		return err
	}
	switch in := at.in.(type) {
	case map[string]any:
		in[at.key] = value
	case *list:
		i, err := index(at.key, len(in.items))
		if err != nil {
			return err
		}
		in.items[i] = value
	}
	return nil
}

func (s *steps) test(path string, o jsonpatch.Operation) error {
	value, err := valueOf(o)
	if err != nil {
		return err
	}
	is := s.root
	if path != "" {
		if is, err = s.get(path); err != nil {
			return err
		}
	}
	if !equal(is, value) {
		return fmt.Errorf("the value at %.100q: %w", path, errTest)
	}
	return nil
}

// copy returns a deep copy of a value, and counts it.
func (s *steps) copy(node any, depth int) (any, error) {
	if depth > maxDepth || s.copied > maxCopied || s.parts > maxCopiedParts {
		return nil, wire.TooLarge("the patch copies too much: more than %d bytes, %d objects and lists, or %d levels",
			maxCopied, maxCopiedParts, maxDepth)
	}
	switch n := node.(type) {
	case map[string]any:
		s.parts++
		clone := make(map[string]any, len(n))
		for name, value := range n {
			s.copied += len(name)
			var err error
			if clone[name], err = s.copy(value, depth+1); err != nil {
				return nil, err
			}
		}
		return clone, nil
	case *list:
		s.parts++
		clone := &list{items: make([]any, len(n.items))}
		for i, item := range n.items {
			var err error
			if clone.items[i], err = s.copy(item, depth+1); err != nil {
				return nil, err
			}
		}
		return clone, nil
	case scalar:
		s.copied += len(n)
	}
	s.copied++
	return node, nil
}

// decodeSteps reads a JSON patch, and also returns its duplicate fields.
func decodeSteps(text []byte) (jsonpatch.Patch, []error, error) {
	var operations []operation
	problems, err := kjson.UnmarshalStrict(text, &operations)
	if err != nil {
		return nil, nil, wire.BadRequest("error decoding patch: %v", err)
	}
	for i, problem := range problems {
		problems[i] = fmt.Errorf("json patch %w", problem)
	}
	all, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, nil, wire.BadRequest("%v", err)
	}
	if len(all) > maxOperations {
		return nil, nil, wire.TooLarge("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(all))
	}
	return all, problems, nil
}

// operation is one step of a JSON patch, for finding duplicate fields.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}
