// Package past says what became of an object: which fields two states of it differ in, who changed them, and which
// change set each line of it.
//
// A tree is a decoded JSON object ([Decode]). A [Difference] is a place in which two trees differ, and its [Path] how
// to get there: items of arrays that have a key field, like the name of a container, are found by it. [Unified] is the
// difference of two texts. A [Moment] is a point of a history as people write it. [Authors] reads managed fields,
// [Blame] remembers which version set what. [Mask] hides the values of Secrets, and [Clean] removes what servers write.
//
// Nothing here reads or writes files, or sends requests. Everything takes time linear in the size of what it looks at,
// [Unified] n log n.
package past

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"sigs.k8s.io/yaml"
)

// Tree is a JSON object: its values are Trees as map[string]any, []any, string, json.Number, bool and nil.
type Tree = map[string]any

// Decode decodes an object. Numbers stay as they are written.
func Decode(raw []byte) (Tree, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree Tree
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("decode an object: %w", err)
	}
	if tree == nil {
		return nil, errors.New("decode an object: it is null")
	}
	return tree, nil
}

// YAML encodes a tree, with sorted keys. nil is the empty text: no object.
func YAML(tree Tree) ([]byte, error) {
	if tree == nil {
		return nil, nil
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("encode an object: %w", err)
	}
	return yaml.JSONToYAML(text)
}

// Quiet returns a tree without what changes with every write: resourceVersion, generation and managedFields. It shares
// the rest with the original, which stays as it is.
func Quiet(tree Tree) Tree {
	meta, is := tree["metadata"].(Tree)
	if !is {
		return tree
	}
	quiet := without(meta, "resourceVersion", "generation", "managedFields")
	out := without(tree, "metadata")
	out["metadata"] = quiet
	return out
}

// WithoutStatus returns a tree without its status. It shares the rest with the original.
func WithoutStatus(tree Tree) Tree { return without(tree, "status") }

// without copies one level of a tree, without some of its members.
func without(tree Tree, names ...string) Tree {
	out := make(Tree, len(tree))
	maps.Copy(out, tree)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

// Text returns a string at a path of members; "" if there is none.
func Text(tree Tree, members ...string) string {
	var value any = tree
	for _, name := range members {
		below, _ := value.(Tree)
		value = below[name]
	}
	text, _ := value.(string)
	return text
}
