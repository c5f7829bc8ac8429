package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

const foosDefinition = "foos.t.example.com"

// defined is the definition of foos.t.example.com whose only version has a schema with these
// members of the spec and of the status.
func defined(spec, status string) string {
	return definedAs(
		`{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"selectableFields":[{"jsonPath":".spec.a"}],` +
			`"schema":{"openAPIV3Schema":` +
			schemaOf(spec, status) + `}}`)
}

// schemaOf is a schema with these members besides spec.a and status.n, or the default of all of
// the status.
func schemaOf(spec, status string) string {
	whole := ""
	if strings.HasPrefix(status, `,"default":`) {
		whole, status = status, ""
	}
	return `{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"}` + spec +
		`}},"status":{"type":"object"` + whole + `,"properties":{"n":{"type":"integer"}` + status + `}}}}`
}

func definedAs(versions string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + foosDefinition +
		`"},
"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[` + versions + `]}}`
}

// redefine replaces the definition by one with another schema.
func (s *server) redefine(body string) {
	s.t.Helper()
	at := s.at(crds, "", foosDefinition)
	rv := s.get(at).ResourceVersion().String()
	s.update(at, strings.Replace(body, `"metadata":{`, `"metadata":{"resourceVersion":"`+rv+`",`, 1))
}

// content is what readers see of an object besides its metadata.
func content(tb testing.TB, o *wire.Object) string {
	tb.Helper()
	all := map[string]any{}
	for _, name := range []string{"spec", "status"} {
		if v := field(tb, o, name); v != nil {
			all[name] = v
		}
	}
	return strings.ReplaceAll(fmt.Sprint(all), "map", "")
}

// reads returns what each reader of an object sees: GET, lists of the newest state and at an exact
// version, the initial events of a watch, whole or as a delta, and its events after a version.
func (s *server) reads(resource, name string, before, at *wire.Object) map[string]string {
	s.t.Helper()
	seen := map[string]string{"GET": content(s.t, s.get(s.at(resource, "default", name)))}
	lists := func(what string, set func(*wire.ListOptions)) {
		s.t.Helper()
		for _, o := range items(s.list(s.at(resource, "default"), set)) {
			if o.Key().Name == name {
				seen[what] = content(s.t, o)
			}
		}
	}
	rv := at.ResourceVersion().String()
	lists("LIST", nil)
	lists("LIST from the cache", func(o *wire.ListOptions) { o.ResourceVersion = "0" })
	lists("LIST at a version", func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match = rv, wire.MatchExact
	})
	send := true
	w := s.watch(s.at(resource, "default", name), func(o *wire.ListOptions) {
		o.InitialEvents, o.Match = &send, wire.MatchNotOlderThan
	})
	seen["WATCH with its initial events"] = content(s.t, w.next().Object)
	w = s.watch(s.at(resource, "default", name), since(before))
	seen["WATCH after a version"] = content(s.t, w.next().Object)
	w = s.deltaSince(s.at(resource, "default", name), before.ResourceVersion())
	seen["WATCH with a delta"] = content(s.t, w.next().Object)
	return seen
}

// each expects the same of all readers.
func each(tb testing.TB, seen map[string]string, want string) {
	tb.Helper()
	for reader, got := range seen {
		if got != want {
			tb.Errorf("%s: %s, want %s", reader, got, want)
		}
	}
}

// TestEveryReaderSeesWhatThePresentSchemaMakesOfAStoredObject edits the schema of a definition in
// each way that changes what is read of an object that was stored before, with the history of the
// object in memory and on disk, and after a restart.
func TestEveryReaderSeesWhatThePresentSchemaMakesOfAStoredObject(t *testing.T) {
	const inner = `,"in":{"type":"object","properties":{"x":{"type":"string"}`
	const items = `,"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],` +
		`"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}`
	for _, test := range []struct {
		name, spec, status string // of the first schema
		stored             string // the object's spec
		next, nextStatus   string // of the second one
		want               string
	}{
		{"nothing for the object", `,"gone":{"type":"string"}`, ``, `{"a":"1"}`, ``, ``, `[spec:[a:1]]`},
		{"a field goes", `,"gone":{"type":"string"}`, ``, `{"a":"1","gone":"x"}`, ``, ``, `[spec:[a:1]]`},
		{"a default comes", ``, ``, `{"a":"1"}`, `,"new":{"type":"string","default":"d"}`, ``, `[spec:[a:1 new:d]]`},
		{"a default of the status comes", ``, ``, `{"a":"1"}`, ``, `,"seen":{"type":"integer","default":-1}`, `[spec:[a:1]]`},
		{"a default of the whole status", ``, ``, `{"a":"1"}`, ``, `,"default":{"n":7}`, `[spec:[a:1] status:[n:7]]`},
		{
			"a nested field goes", inner + `,"y":{"type":"string"}}}`, ``, `{"in":{"x":"1","y":"2"}}`, inner + `}}`, ``,
			`[spec:[in:[x:1]]]`,
		},
		{
			"a nested default comes", inner + `}}`, ``, `{"in":{"x":"1"}}`, inner + `,"y":{"type":"string","default":"d"}}}`, ``,
			`[spec:[in:[x:1 y:d]]]`,
		},
		{
			"a default of items comes and a field goes", items + `,"g":{"type":"string"}}}}`, ``,
			`{"list":[{"k":"a","g":"1"},{"k":"b"}]}`,
			items + `,"n":{"type":"integer","default":3}}}}`, ``, `[spec:[list:[[k:a n:3] [k:b n:3]]]]`,
		},
		{
			"a map becomes a struct", `,"in":{"type":"object","additionalProperties":{"type":"string"}}`, ``,
			`{"in":{"x":"1","y":"2"}}`, inner + `}}`, ``, `[spec:[in:[x:1]]]`,
		},
		{
			"unknown fields are no longer preserved", `,"in":{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, ``,
			`{"in":{"x":"1","y":{"z":2}}}`, inner + `}}`, ``, `[spec:[in:[x:1]]]`,
		},
		{
			"null is no longer allowed", `,"in":{"type":"string","nullable":true}`, ``, `{"a":"1","in":null}`,
			`,"in":{"type":"string"}`, ``, `[spec:[a:1]]`,
		},
		{
			"null is no longer allowed, and there is a default", `,"in":{"type":"string","nullable":true}`, ``,
			`{"a":"1","in":null}`, `,"in":{"type":"string","default":"d"}`, ``, `[spec:[a:1 in:d]]`,
		},
		{
			"metadata of an embedded object must have its types",
			`,"in":{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, ``,
			`{"in":{"apiVersion":"v1","kind":"X","metadata":{"name":"e","labels":7}}}`,
			`,"in":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true}`, ``,
			`[spec:[in:[apiVersion:v1 kind:X metadata:[name:e]]]]`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := openLog(t)
			s, stop := serveOn(t, log, nil)
			s.create(s.at(crds), defined(test.spec, test.status))
			before := s.create(s.at(foos, "default"), foo("before", `{"a":"0"}`))
			stored := s.create(s.at(foos, "default"), foo("a", test.stored))
			s.redefine(defined(test.next, test.nextStatus))
			each(t, s.reads(foos, "a", before, stored), test.want)
			// The object leaves the window, so that its history is read from the store.
			for range 80 {
				s.create(s.at(foos, "kube-system"), strings.Replace(foo("", `{}`), `"name":""`, `"generateName":"x-"`, 1))
			}
			each(t, s.reads(foos, "a", before, stored), test.want)
			stop()
			s, _ = serveOn(t, log, nil)
			each(t, s.reads(foos, "a", before, stored), test.want)
			s.delete(s.at(foos, "default", "a"))
			w := s.watch(s.at(foos, "default", "a"), since(stored))
			if e := w.next(); e.Type != kube.Deleted || content(t, e.Object) != test.want {
				t.Errorf("%s: %s, want %s", e.Type, content(t, e.Object), test.want)
			}
		})
	}
}
