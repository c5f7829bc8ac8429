package swagger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// behind is what servers behind add to the document of a catalog.
type behind struct {
	parts      []part
	parameters [][]byte
}

// merge returns what servers behind add to a document whose parts, in JSON, are given.
func merge(form openapi.Form, here []part, swaggers []*aggregator.Swagger) (behind, error) {
	var all behind
	others := make([]*openapi.Other, 0, len(swaggers))
	for _, s := range swaggers {
		o, err := s.Read()
		if err != nil {
			return all, err
		}
		others = append(others, o)
	}
	m, err := newMerging(here, others)
	if err != nil {
		return all, err
	}
	for i, o := range others {
		if m.add(o); len(o.Paths) == 0 {
			continue
		}
		f, err := o.Fragment(form)
		if err != nil {
			return all, fmt.Errorf("the document about %s: %w", swaggers[i].GroupVersion, err)
		}
		if form == openapi.JSON {
			f = behindOthers(f)
		}
		all.parts = append(all.parts, newPart(f))
		all.parameters = append(all.parameters, f.Parameters)
	}
	return all, nil
}

// merging adds documents to others, by upstream's rules (kube-openapi pkg/aggregator
// MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters): paths that there are stay, definitions and parameters that
// are equal are shared, and others of the same name get another one.
type merging struct {
	paths                   map[string]bool
	definitions, parameters map[string]any
}

// newMerging begins with parts, of which it reads what the others could clash with.
func newMerging(here []part, others []*openapi.Other) (*merging, error) {
	paths, definitions := map[string]bool{}, map[string]bool{}
	for _, o := range others {
		for path := range o.Paths {
			paths[path] = true
		}
		for name := range o.Definitions {
			definitions[name] = true
		}
	}
	m := &merging{paths: map[string]bool{}, definitions: map[string]any{}}
	for _, p := range here {
		err := eachMember(p.paths, func(path string, _ json.RawMessage) error {
			if paths[path] {
				m.paths[path] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		err = eachMember(p.definitions, func(name string, value json.RawMessage) error {
			if !definitions[name] && !definitions[unnumbered(name)] {
				return nil
			}
			o, err := openapi.DecodeOther(fmt.Appendf(nil, `{"definitions":{"":%s}}`, value))
			if err == nil {
				m.definitions[name] = o.Definitions[""]
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var err error
	m.parameters, err = openapi.SharedParameters()
	return m, err
}

// eachMember calls do for the members of an object, which a block has in JSON without its braces.
func eachMember(of *blockzip.Block, do func(name string, value json.RawMessage) error) error {
	var text bytes.Buffer
	if _, err := of.WriteTo(&text); err != nil {
		return fmt.Errorf("read the OpenAPI v2 document: %w", err)
	}
	members := bytes.TrimPrefix(text.Bytes(), []byte(","))
	dec := json.NewDecoder(bytes.NewReader(slices.Concat([]byte("{"), members, []byte("}"))))
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("read the OpenAPI v2 document: %w", err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return fmt.Errorf("read the OpenAPI v2 document: %w", err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("read the OpenAPI v2 document: %w", err)
		}
		if err := do(fmt.Sprint(name), value); err != nil {
			return err
		}
	}
	return nil
}

// unnumbered returns a name without the number that a clash gives it.
func unnumbered(name string) string {
	i := strings.LastIndex(name, "_v")
	if i < 0 {
		return name
	}
	if _, err := strconv.Atoi(name[i+len("_v"):]); err != nil {
		return name
	}
	return name[:i]
}

// add adds a document, of which it leaves what was not there.
func (m *merging) add(o *openapi.Other) {
	if m.clashes(o) {
		o.Keep(func(path string) bool { return !m.paths[path] })
	}
	if len(o.Paths) == 0 {
		return
	}
	o.Rename(renames(m.definitions, o.Definitions, equalDefinitions), renames(m.parameters, o.Parameters, reflect.DeepEqual))
	for path := range o.Paths {
		m.paths[path] = true
	}
	for there, own := range map[*map[string]any]map[string]any{
		&m.definitions: o.Definitions, &m.parameters: o.Parameters,
	} {
		maps.DeleteFunc(own, func(name string, _ any) bool {
			_, has := (*there)[name]
			return has
		})
		maps.Copy(*there, own)
	}
}

func (m *merging) clashes(o *openapi.Other) bool {
	for path := range o.Paths {
		if m.paths[path] {
			return true
		}
	}
	return false
}

// renames returns the new names of own members: of those that are not equal to what there is of the name. One that was
// renamed before is used again.
func renames(there, own map[string]any, equal func(a, b any) bool) map[string]string {
	all, given := map[string]string{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		has, clashes := there[name]
		for i := 2; clashes && !equal(has, own[name]); i++ {
			next := name + "_v" + strconv.Itoa(i)
			has, clashes = there[next]
			if _, is := own[next]; !clashes && (is || given[next]) {
				has, clashes = nil, true // it is another one's
				continue
			}
			all[name] = next
		}
		given[all[name]] = true
	}
	return all
}

const kindsKey = "x-kubernetes-group-version-kind"

// equalDefinitions compares definitions but for which kinds they are of.
func equalDefinitions(a, b any) bool {
	return reflect.DeepEqual(withoutKinds(a), withoutKinds(b))
}

func withoutKinds(def any) any {
	of, is := def.(map[string]any)
	if !is {
		return def
	}
	of = maps.Clone(of)
	delete(of, kindsKey)
	return of
}
