package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

const (
	goneField  = `,"gone":{"type":"string"}`
	newDefault = `,"new":{"type":"string","default":"d"}`
)

// TestReadFormsAreMadeOnceAndShared: all readers get the same object. One that the schema leaves as
// it is stored is the cache's own, and an edit of other parts of the definition makes nothing anew.
func TestReadFormsAreMadeOnceAndShared(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), defined(goneField, ""))
	before := s.create(s.at(foos, "default"), foo("a", `{"a":"1"}`))
	s.create(s.at(foos, "default"), foo("b", `{"a":"1","gone":"x"}`))
	same := s.get(s.at(foos, "default", "a"))
	s.redefine(defined("", ""))
	if s.get(s.at(foos, "default", "a")) != same {
		t.Error("an object that the schema leaves as it is was made anew")
	}
	form := s.get(s.at(foos, "default", "b"))
	shared := func(when string) {
		t.Helper()
		got := map[string]*wire.Object{
			"LIST":  items(s.list(s.at(foos, "default"), nil))[1],
			"WATCH": s.watch(s.at(foos, "default", "b"), since(before)).next().Object,
			"Find": s.Find(kinds.GroupResource{Group: "t.example.com", Resource: "foos"}, wire.Key{
				Namespace: "default", Name: "b",
			}),
			"GET": s.get(s.at(foos, "default", "b")),
		}
		for reader, o := range got {
			if o != form {
				t.Errorf("%s: %s has an object of its own", when, reader)
			}
		}
	}
	shared("at first")
	s.merge(s.at(crds, "", foosDefinition), `{"metadata":{"labels":{"a":"b"}},"spec":{"names":{"shortNames":["fo"]}}}`)
	shared("after an edit of the names")
	s.redefine(defined(newDefault, ""))
	if o := s.get(s.at(foos, "default", "b")); o == form || content(t, o) != "[spec:[a:1 new:d]]" {
		t.Errorf("after an edit of the schema: %s", o.JSON())
	}
	// What an earlier schema did not know is still stored, until the object is written.
	s.redefine(defined(goneField, ""))
	if o := s.get(s.at(foos, "default", "b")); content(t, o) != "[spec:[a:1 gone:x]]" {
		t.Errorf("when the field is back: %s", o.JSON())
	}
	s.redefine(defined("", ""))
	s.merge(s.at(foos, "default", "b"), `{"metadata":{"labels":{"a":"b"}}}`)
	s.redefine(defined(goneField, ""))
	if o := s.get(s.at(foos, "default", "b")); content(t, o) != "[spec:[a:1]]" {
		t.Errorf("when the field is back after a write: %s", o.JSON())
	}
}

// TestWritesStartFromTheReadForm: an object that stored a removed field can be applied to, patched,
// and updated strictly with what was read; plugins see it without the field, and the first write
// stores it so.
func TestWritesStartFromTheReadForm(t *testing.T) {
	var seen []string
	plugin := &reviewer{validate: func(_ context.Context, a admission.Attributes) error {
		old, is := a.GetOldObject().(*unstructured.Unstructured)
		if is && old != nil && a.GetKind().Kind == "Foo" {
			seen = append(seen, fmt.Sprint(old.Object["spec"]))
		}
		return nil
	}}
	s := reviewed(t, plugin)
	s.create(s.at(crds), defined(goneField, ""))
	at := func(place ...string) kinds.Target { return by(s.at(foos, append([]string{"default"}, place...)...)) }
	apply := func(at kinds.Target, body string) (wire.Written, error) {
		return s.Patch(t.Context(), at, wire.Patch{Type: types.ApplyYAMLPatchType, Body: []byte(body)},
			metav1.PatchOptions{FieldManager: "one"})
	}
	names := []string{"applied", "status", "label", "strict", "pointed", "same", "deleted"}
	for _, name := range names {
		if _, err := apply(at(name),
			strings.Replace(foo(name, `{"a":"1","gone":"x"}`), `"metadata":{`, `"metadata":{"finalizers":["x.io/f"],`,
				1)); err != nil {
			t.Fatalf("apply: %v", err)
		}
	}
	s.redefine(defined(newDefault, ""))
	const want = "[spec:[a:1 new:d]]"
	expect := func(what string, out wire.Written, err error, want string) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if got := content(t, out.Object); got != want || len(out.Warnings) > 0 {
			t.Errorf("%s: %s, want %s; warnings %q", what, got, want, out.Warnings)
		}
	}
	out, err := apply(at("applied"), foo("applied", `{"a":"2"}`))
	expect("apply", out, err, "[spec:[a:2 new:d]]")
	out, err = apply(at("status", "status"), strings.Replace(foo("status", `{}`), `"spec":{}`, `"status":{"n":1}`, 1))
	expect("apply of the status", out, err, "[spec:[a:1 new:d] status:[n:1]]")
	out, err = s.Patch(t.Context(), at("label"), mergePatch(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{
		FieldValidation: "Strict",
	})
	expect("strict patch of a label", out, err, want)
	out, err = s.Update(t.Context(), at("strict"), s.get(at("strict")).JSON(), metav1.UpdateOptions{FieldValidation: "Strict"})
	expect("strict update with what was read", out, err, want)
	out, err = s.Patch(t.Context(), at("pointed"), wire.Patch{
		Type: types.JSONPatchType,
		Body: []byte(`[{"op":"test","path":"/spec/new","value":"d"},{"op":"replace","path":"/spec/new","value":"e"}]`),
	}, metav1.PatchOptions{})
	expect("patch of a default", out, err, "[spec:[a:1 new:e]]")
	// As upstream: a write that changes nothing stores the read form, and the next one writes nothing.
	was := s.get(at("same"))
	first := s.merge(at("same"), `{}`)
	second := s.merge(at("same"), `{}`)
	if first.ResourceVersion() == was.ResourceVersion() || second.ResourceVersion() != first.ResourceVersion() ||
		second.Generation() != was.Generation() {
		t.Errorf("writes that change nothing: %v, then %v and %v; generation %d, then %d",
			was.ResourceVersion(), first.ResourceVersion(), second.ResourceVersion(), was.Generation(), second.Generation())
	}
	if o := s.delete(at("deleted")).Object; o == nil || content(t, o) != want {
		t.Errorf("the answer to a deletion: %v", o)
	}
	if len(seen) < len(names) || slices.ContainsFunc(seen, func(old string) bool { return old != "map[a:1 new:d]" }) {
		t.Errorf("plugins have seen %q", seen)
	}
	s.redefine(defined(goneField, ""))
	for _, name := range names {
		if field(t, s.get(at(name)), "spec", "gone") != nil {
			t.Errorf("%s: the removed field was stored again", name)
		}
	}
}

// TestCreationsAnswerWithTheDefaultsOfTheStatus, which a creation does not store.
func TestCreationsAnswerWithTheDefaultsOfTheStatus(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), defined("", `,"default":{"n":-1}`))
	w := s.watch(s.at(foos), nil)
	w.take(1) // the end of the initial events
	const want = "[spec:[a:1] status:[n:-1]]"
	body := strings.Replace(foo("a", `{"a":"1"}`), `"spec"`, `"status":{"n":5},"spec"`, 1)
	dry, err := s.Create(t.Context(), s.at(foos, "default"), []byte(body), metav1.CreateOptions{DryRun: []string{"All"}})
	if err != nil || content(t, dry.Object) != want {
		t.Errorf("a dry run: %v, %v", dry.Object, err)
	}
	if o := s.create(s.at(foos, "default"), body); content(t, o) != want {
		t.Errorf("the answer: %s", content(t, o))
	}
	if e := w.next(); content(t, e.Object) != want {
		t.Errorf("the event: %s", content(t, e.Object))
	}
	s.merge(s.at(foos, "default", "a", "status"), `{"status":{"n":3}}`)
	if o := s.get(s.at(foos, "default", "a")); content(t, o) != "[spec:[a:1] status:[n:3]]" {
		t.Errorf("after a write of the status: %s", content(t, o))
	}
}

// TestFieldsAreSelectedInTheReadForm, in lists, and by a watch that waits.
func TestFieldsAreSelectedInTheReadForm(t *testing.T) {
	const b = `,"b":{"type":"string"}`
	s := serve(t)
	s.create(s.at(crds), defined(b, ""))
	s.create(s.at(foos, "default"), foo("without", `{}`))
	s.create(s.at(foos, "default"), foo("with", `{"a":"1"}`))
	s.redefine(withDefault(defined(b, "")))
	if got := names(s.list(s.at(foos), where("d"))); !slices.Equal(got, []string{"default/without"}) {
		t.Errorf("selected by the default: %q", got)
	}
	if got := names(s.list(s.at(foos), where(""))); len(got) > 0 {
		t.Errorf("selected by no value: %q", got)
	}
	empty, defaulted := s.watch(s.at(foos), where("")), s.watch(s.at(foos), where("d"))
	if got := append(defaulted.take(2), empty.take(1)...); !slices.Equal(got, []string{"ADDED default/without", "END", "END"}) {
		t.Errorf("the watches begin with %q", got)
	}
	empty.nothing(s)
	defaulted.nothing(s)
	s.merge(s.at(foos, "default", "without"), `{"spec":{"b":"x"}}`)
	if e := defaulted.next(); e.Type != kube.Modified || content(t, e.Object) != "[spec:[a:d b:x]]" {
		t.Errorf("%s %s", e.Type, content(t, e.Object))
	}
	empty.nothing(s)
}

// TestAnEditThatChangesWhatFieldsSelectEndsTheirWatches, with 410, and no others: objects came into
// the selection and left it without an event. Nor can such a watch begin before the edit, also after a
// restart.
func TestAnEditThatChangesWhatFieldsSelectEndsTheirWatches(t *testing.T) {
	log := openLog(t)
	s, stop := serveOn(t, log, nil)
	s.create(s.at(crds), defined(goneField, ""))
	last := s.create(s.at(foos, "default"), foo("a", `{"gone":"x"}`))
	from := func(set func(*wire.ListOptions)) func(*wire.ListOptions) {
		return func(o *wire.ListOptions) {
			set(o)
			since(last)(o)
		}
	}
	byField, whole := s.watch(s.at(foos), from(where("1"))), s.watch(s.at(foos), since(last))
	byName := s.watch(s.at(foos),
		from(func(o *wire.ListOptions) { o.Fields = fields.OneTermEqualSelector("metadata.name", "a") }))
	s.redefine(defined(newDefault, "")) // what is read of spec.a is the same
	byField.nothing(s)
	before := byField.Position()
	s.redefine(withDefault(defined("", "")))
	s.merge(s.at(foos, "default", "a"), `{"metadata":{"labels":{"a":"b"}}}`)
	if at := byField.Position(); at != before {
		t.Errorf("the position of the watch has passed the edit: %d after %d", at, before)
	}
	if _, err := byField.Next(t.Context()); expired(err) == nil {
		t.Errorf("the watch ends with %v", err)
	}
	whole.take(1)
	byName.take(1)
	refused := func(when string) {
		t.Helper()
		if _, err := s.Watch(t.Context(), s.at(foos), options(from(where("1")))); expired(err) == nil {
			t.Errorf("%s a watch from before the edit: %v", when, err)
		}
		s.watch(s.at(foos), since(last)).take(1)
		now := s.list(s.at(foos), where("d")).ResourceVersion
		s.watch(s.at(foos), func(o *wire.ListOptions) { where("d")(o); o.ResourceVersion = now.String() }).nothing(s)
	}
	refused("")
	stop()
	s, _ = serveOn(t, log, nil)
	refused("after a restart")
}

// where selects by a value of spec.a.
func where(value string) func(*wire.ListOptions) {
	return func(o *wire.ListOptions) { o.Fields = fields.OneTermEqualSelector("spec.a", value) }
}

// withDefault gives spec.a of a definition a default.
func withDefault(definition string) string {
	return strings.ReplaceAll(definition, `"a":{"type":"string"}`, `"a":{"type":"string","default":"d"}`)
}

// nothing expects that a watch has no event up to now: its position passes what it does not select.
func (w *watcher) nothing(s *server) {
	w.t.Helper()
	if now := s.list(s.at(foos), nil).ResourceVersion; w.Position() < now || len(w.waiting) > 0 {
		w.t.Errorf("the watch at %d has an event before %d", w.Position(), now)
	}
}

// TestAnOpenWatchShowsWhatTheSchemaIsNow: it goes on over an edit.
func TestAnOpenWatchShowsWhatTheSchemaIsNow(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), defined(goneField, ""))
	last := s.create(s.at(foos, "default"), foo("a", `{"a":"1","gone":"x"}`))
	w := s.watch(s.at(foos), since(last))
	s.merge(s.at(foos, "default", "a"), `{"spec":{"a":"2"}}`)
	if got := content(t, w.next().Object); got != "[spec:[a:2 gone:x]]" {
		t.Errorf("before the edit: %s", got)
	}
	s.merge(s.at(foos, "default", "a"), `{"spec":{"a":"3"}}`)
	s.redefine(defined(newDefault, ""))
	for range 2 {
		if got := content(t, w.next().Object); got != "[spec:[a:3 new:d]]" {
			t.Errorf("after the edit: %s", got)
		}
		if _, err := s.Delete(t.Context(), s.at(foos, "default", "a"),
			metav1.DeleteOptions{}); err != nil && wire.StatusOf(err).Code != http.StatusNotFound {
			t.Fatal(err)
		}
	}
}

// version is a version of foos with a schema of its own.
func version(name, spec string, storage bool) string {
	return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},"schema":{"openAPIV3Schema":%s}}`,
		name, storage, schemaOf(spec, ""))
}

// TestOtherVersionsAreMadeOfTheReadForm: the defaults of the version in which an object is stored,
// and then the members of the version that is shown, as upstream.
func TestOtherVersionsAreMadeOfTheReadForm(t *testing.T) {
	const v2, b, c = "t.example.com/v2/foos", `,"b":{"type":"string","default":"1"}`, `,"c":{"type":"string","default":"2"}`
	s := serve(t)
	s.create(s.at(crds), definedAs(version("v1", b, true)+","+version("v2", b+c, false)))
	before := s.create(s.at(foos, "default"), foo("before", `{}`))
	made := s.create(s.at(v2, "default"), strings.Replace(foo("a", `{"a":"1","b":"x"}`), "/v1", "/v2", 1))
	if got := content(t, made); got != "[spec:[a:1 b:x]]" {
		t.Errorf("the answer has the default of a version in which it is not stored: %s", got)
	}
	w := s.watch(s.at(v2), since(made))
	s.redefine(definedAs(version("v1", c, true) + "," + version("v2", c+`,"d":{"type":"string","default":"3"}`, false)))
	each(t, s.reads(foos, "a", before, made), "[spec:[a:1 c:2]]")
	each(t, s.reads(v2, "a", before, made), "[spec:[a:1 c:2]]")
	s.merge(s.at(v2, "default", "a"), `{"spec":{"d":"4"}}`)
	if got := content(t, w.next().Object); got != "[spec:[a:1 c:2]]" {
		t.Errorf("the event: %s", got)
	}
	// From here on the versions differ in apiVersion only.
	s.redefine(definedAs(version("v1", "", true) + "," + version("v2", "", false)))
	if _, err := w.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("a watch of objects that are no longer converted ends with %v", err)
	}
}

// TestReadsAndEditsAreConcurrent reads while the schema changes to and fro: every reader sees what
// one of the schemas makes of the object.
func TestReadsAndEditsAreConcurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := serve(t)
	s.create(s.at(crds), defined(goneField, ""))
	before := s.create(s.at(foos, "default"), foo("before", `{"a":"0"}`))
	stored := s.create(s.at(foos, "default"), foo("a", `{"a":"1","gone":"x"}`))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() { // ends when the edits are done
			for {
				for reader, got := range s.reads(foos, "a", before, stored) {
					if got != "[spec:[a:1 gone:x]]" && got != "[spec:[a:1 new:d]]" {
						t.Errorf("%s: %s", reader, got)
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 20 {
		s.redefine(defined(goneField, ""))
		s.redefine(defined(newDefault, ""))
	}
	close(done)
	readers.Wait()
	each(t, s.reads(foos, "a", before, stored), "[spec:[a:1 new:d]]")
}
