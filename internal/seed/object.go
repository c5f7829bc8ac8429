package seed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/seed/manifest"
)

// place is where an object stands.
type place struct {
	file                 int
	document, line, item int // as in Problem
}

// object is one object of a document.
type object struct {
	place
	tree map[string]any
	kind kinds.GroupVersionKind
	key  key
}

// key names an object in all versions of its resource.
type key struct {
	resource        kinds.GroupResource // zero if the kind is unknown
	namespace, name string
}

// entry is what the Seeder keeps of an object between two readings of its file.
type entry struct {
	place
	key   key
	phase phase
	// pending says that the object is to be written.
	pending bool
}

// title is the name of an object for people.
func (o *object) title() string {
	name := o.key.name
	if name == "" {
		name = "(without a name)"
	}
	if o.key.namespace != "" {
		name = o.key.namespace + "/" + name
	}
	return strings.TrimSpace(o.kind.Kind + " " + name)
}

// objects yields all objects of all files in their order. In the place of a document that
// cannot be decoded it yields a Problem as the error.
func (s *Seeder) objects() iter.Seq2[object, *Problem] {
	return func(yield func(object, *Problem) bool) {
		for i := range s.Files.Len() {
			for d, err := range s.Files.Documents(i) {
				at := place{file: i, document: d.Number, line: d.Line}
				if wrong, is := errors.AsType[*manifest.Error](err); is {
					at.document, at.line = wrong.Number, wrong.Line
				}
				if err == nil {
					var tree map[string]any
					if tree, err = decode(d.JSON); err == nil {
						if !expand(at, tree, yield) {
							return
						}
						continue
					}
				}
				if !yield(object{}, s.problem(at, "", err)) {
					return
				}
			}
		}
	}
}

func (s *Seeder) problem(at place, title string, cause error) *Problem {
	return &Problem{File: s.Files.Name(at.file), Line: at.line, Document: at.document, Item: at.item, Object: title, Cause: cause}
}

// sortLocked sorts the problems by their place.
func (s *Seeder) sortLocked() {
	order := make(map[string]int, s.Files.Len())
	for i := range s.Files.Len() {
		order[s.Files.Name(i)] = i
	}
	slices.SortStableFunc(s.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Item, b.Item))
	})
}

// decode decodes a document, and refuses duplicate keys.
func decode(text []byte) (map[string]any, error) {
	if tree, err := jsontree.DecodePlain(text); err == nil {
		return tree, nil
	}
	var tree map[string]any
	problems, err := kjson.UnmarshalStrict(text, &tree)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	return tree, nil
}

// expand yields an object, or the items of a list: of a List, or of a typed list, whose
// items may be without apiVersion and kind.
func expand(at place, tree map[string]any, yield func(object, *Problem) bool) bool {
	n := 0
	return expandInto(at, tree, &n, yield)
}

func expandInto(at place, tree map[string]any, n *int, yield func(object, *Problem) bool) bool {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	items, is := tree["items"].([]any)
	if !is || !strings.HasSuffix(kind, "List") {
		return yield(newObject(at, tree), nil)
	}
	for _, item := range items {
		*n++
		at.item = *n
		o, isObject := item.(map[string]any)
		if !isObject {
			o = map[string]any{} // it is reported for its missing kind
		}
		if of := strings.TrimSuffix(kind, "List"); of != "" && o["kind"] == nil && len(o) > 0 {
			o["kind"] = of
			if o["apiVersion"] == nil {
				o["apiVersion"] = apiVersion
			}
		}
		if !expandInto(at, o, n, yield) {
			return false
		}
	}
	return true
}

func newObject(at place, tree map[string]any) object {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	o := object{place: at, tree: tree, kind: runtimeschema.FromAPIVersionAndKind(apiVersion, kind)}
	if meta, is := tree["metadata"].(map[string]any); is {
		name, _ := meta["name"].(string)
		namespace, _ := meta["namespace"].(string)
		// The strings of a tree share the memory of the document, and the key stays.
		o.key.name, o.key.namespace = strings.Clone(name), strings.Clone(namespace)
	}
	return o
}

// wrong returns what is wrong with an object before its kind is known.
func (o *object) wrong() error {
	for _, member := range []string{"apiVersion", "kind"} {
		if text, _ := o.tree[member].(string); text == "" {
			return fmt.Errorf("%s is missing, or no text", member)
		}
	}
	meta, is := o.tree["metadata"].(map[string]any)
	if !is {
		return errors.New("metadata is missing, or no object")
	}
	for _, member := range []string{"name", "namespace"} {
		if _, isText := meta[member].(string); meta[member] != nil && !isText {
			return fmt.Errorf("metadata.%s is no text: write it in quotes", member)
		}
	}
	generated, _ := meta["generateName"].(string)
	switch {
	case o.key.name == "" && generated != "":
		return errors.New("metadata.generateName would create another object at each start: set metadata.name")
	case o.key.name == "":
		return errors.New("metadata.name is missing")
	case meta["resourceVersion"] != nil && meta["resourceVersion"] != "":
		return errors.New(
			"metadata.resourceVersion is set, which is the server's: remove it (gapless export writes manifests without it)")
	}
	return nil
}

// prepare removes what only the server sets, and sets the namespace: "default" if an
// object of a namespace names none, as with kubectl.
func (o *object) prepare(r *kinds.Resource) {
	meta := o.tree["metadata"].(map[string]any) //nolint:forcetypeassert // wrong has checked it
	for _, name := range []string{
		"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "deletionTimestamp",
		"deletionGracePeriodSeconds",
	} {
		delete(meta, name)
	}
	o.key.resource = r.Home().GR()
	if !r.Namespaced {
		o.key.namespace = ""
		delete(meta, "namespace")
		return
	}
	if o.key.namespace == "" {
		o.key.namespace = metav1.NamespaceDefault
	}
	meta["namespace"] = o.key.namespace
}

// target is the target of an object's verbs.
func (o *object) target(r *kinds.Resource) kinds.Target {
	return kinds.Target{Resource: r, Namespace: o.key.namespace, Name: o.key.name}
}

func (o *object) body() ([]byte, error) { return json.Marshal(o.tree) }
