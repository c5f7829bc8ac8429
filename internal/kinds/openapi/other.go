package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/gnostic-models/compiler"
	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// How large a document of another server may be, in values of JSON: each takes some hundred bytes until it is encoded. The
// document of all built-in kinds has about 50 000.
const (
	maxValues     = 1 << 20 // that is read
	maxValuesKept = 1 << 18 // of one version of a group
)

// Other is what another server's document of version 2 says of one version of a group, as trees of JSON whose numbers are
// json.Number.
type Other struct {
	Paths       map[string]any `json:"paths"`
	Definitions map[string]any `json:"definitions"`
	Parameters  map[string]any `json:"parameters"`
}

// The references that are followed.
const parametersPrefix = "#/parameters/"

const kindsKey = "x-kubernetes-group-version-kind"

// ReadOther reads a document, of which it keeps the paths of a version of a group and what these refer to, as upstream does
// (kube-openapi pkg/aggregator FilterSpecByPaths). A kind of another version is nothing that the other server can speak for:
// definitions do not say that they are of one. Without such paths it returns nil. Errors: it is no such document, or larger
// than is taken.
func ReadOther(body []byte, gv schema.GroupVersion) (*Other, error) {
	if n := values(body); n > maxValues {
		return nil, fmt.Errorf("the document has %d values: %d are read", n, maxValues)
	}
	o, err := DecodeOther(body)
	if err != nil {
		return nil, err
	}
	for _, members := range []map[string]any{o.Paths, o.Definitions, o.Parameters} {
		for name, value := range members {
			if _, is := value.(map[string]any); !is {
				return nil, fmt.Errorf("%s is no object", name)
			}
		}
	}
	o.Keep(func(path string) bool { return strings.HasPrefix(path, "/apis/"+gv.Group+"/"+gv.Version+"/") })
	if len(o.Paths) == 0 {
		return nil, nil //nolint:nilnil // nil is nothing
	}
	for _, def := range o.Definitions {
		disown(def, gv)
	}
	kept, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	if n := values(kept); n > maxValuesKept {
		return nil, fmt.Errorf("%d values are about %s: %d are taken", n, gv, maxValuesKept)
	}
	if _, err := o.Fragment(Protobuf); err != nil { // clients could not read the whole document
		return nil, err
	}
	return o, nil
}

// DecodeOther decodes what was encoded as JSON.
func DecodeOther(text []byte) (*Other, error) {
	o := &Other{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(o); err != nil {
		return nil, fmt.Errorf("decode it: %w", err)
	}
	return o, nil
}

// values returns about how many values a text in JSON has.
func values(text []byte) int {
	return bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("["))
}

// Keep removes the paths for which is returns false, and the definitions to which only they referred.
func (o *Other) Keep(is func(path string) bool) {
	before := o.used()
	maps.DeleteFunc(o.Paths, func(path string, _ any) bool { return !is(path) })
	after := o.used()
	maps.DeleteFunc(o.Definitions, func(name string, _ any) bool { return before[name] && !after[name] })
}

// used returns the definitions to which paths and parameters refer, also through others.
func (o *Other) used() map[string]bool {
	used, seen := map[string]bool{}, map[string]bool{}
	var follow func(ref string) string
	follow = func(ref string) string {
		if seen[ref] {
			return ref
		}
		seen[ref] = true
		if name, is := strings.CutPrefix(ref, definitionsPrefix); is {
			used[name] = true
			replaceReferences(o.Definitions[name], follow)
		} else if name, is := strings.CutPrefix(ref, parametersPrefix); is {
			replaceReferences(o.Parameters[name], follow)
		}
		return ref
	}
	for _, path := range o.Paths {
		replaceReferences(path, follow)
	}
	for _, param := range o.Parameters {
		replaceReferences(param, follow)
	}
	return used
}

// replaceReferences replaces each reference in a tree by what instead returns for it.
func replaceReferences(tree any, instead func(ref string) string) {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			if ref, is := value.(string); is && key == "$ref" {
				tree[key] = instead(ref)
				continue
			}
			replaceReferences(value, instead)
		}
	case []any:
		for _, value := range tree {
			replaceReferences(value, instead)
		}
	}
}

// disown removes from a definition the kinds of other versions.
func disown(def any, gv schema.GroupVersion) {
	tree, _ := def.(map[string]any)
	all, is := tree[kindsKey].([]any)
	if !is {
		delete(tree, kindsKey)
		return
	}
	tree[kindsKey] = slices.DeleteFunc(all, func(one any) bool {
		kind, _ := one.(map[string]any)
		return kind["group"] != gv.Group || kind["version"] != gv.Version
	})
}

// Rename gives definitions and parameters other names.
func (o *Other) Rename(definitions, parameters map[string]string) {
	if len(definitions) == 0 && len(parameters) == 0 {
		return
	}
	instead := func(ref string) string {
		if name, is := strings.CutPrefix(ref, definitionsPrefix); is && definitions[name] != "" {
			return definitionsPrefix + definitions[name]
		}
		if name, is := strings.CutPrefix(ref, parametersPrefix); is && parameters[name] != "" {
			return parametersPrefix + parameters[name]
		}
		return ref
	}
	for _, members := range []map[string]any{o.Paths, o.Definitions, o.Parameters} {
		for _, value := range members {
			replaceReferences(value, instead)
		}
	}
	for members, renamed := range map[*map[string]any]map[string]string{
		&o.Definitions: definitions, &o.Parameters: parameters,
	} {
		all := make(map[string]any, len(*members))
		for name, value := range *members {
			if other := renamed[name]; other != "" {
				name = other
			}
			all[name] = value
		}
		*members = all
	}
}

// Fragment returns what it adds to a document of version 2.
func (o *Other) Fragment(form Form) (Fragment, error) {
	f, err := form.encode(o.Paths, o.Definitions)
	if err != nil {
		return f, err
	}
	if form == JSON {
		f.Parameters, err = members(o.Parameters)
		return f, err
	}
	node, err := nodeOf(o.Parameters)
	if err != nil {
		return f, err
	}
	all, err := openapiv2.NewParameterDefinitions(node, compiler.NewContext("parameters", node, nil))
	if err != nil {
		return f, fmt.Errorf("parameters in protobuf: %w", err)
	}
	f.Parameters, err = proto.Marshal(all)
	return f, err
}

// SharedParameters returns the parameters to which paths of version 2 refer, as a tree of JSON.
func SharedParameters() (map[string]any, error) {
	text, err := json.Marshal(sharedParameters())
	if err != nil {
		return nil, fmt.Errorf("encode the parameters: %w", err)
	}
	o, err := DecodeOther(fmt.Appendf(nil, `{"parameters":%s}`, text))
	if err != nil {
		return nil, err
	}
	return o.Parameters, nil
}

// With returns a frame of a document of version 2 that has further parameters: those of fragments.
func (form Form) With(f Frame, parameters [][]byte) (Frame, error) {
	f.End = slices.Clip(f.End)
	for _, more := range parameters {
		switch {
		case len(more) == 0:
		case form == Protobuf:
			f.End = append(append(f.End, field(parametersField, len(more))...), more...)
		default:
			end, is := bytes.CutSuffix(f.End, []byte("}}"))
			if !is {
				return f, errors.New("the frame does not end with the parameters")
			}
			f.End = append(append(append(slices.Clip(end), ','), more...), "}}"...)
		}
	}
	return f, nil
}
