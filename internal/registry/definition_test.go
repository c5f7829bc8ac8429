package registry_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestCustomResourceIsServedOnceItsDefinitionIsCreated(t *testing.T) {
	s := serve(t)
	d := s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "default"), foo("a", `{}`))
	if field(t, d, "status", "acceptedNames", "kind") != "Foo" {
		t.Errorf("the definition is %s", d.JSON())
	}
}

func TestDefinitionUpdateKeepsWatchesOpen(t *testing.T) {
	s := serve(t)
	was := s.create(s.at(crds), definition(""))
	first := s.create(s.at(foos, "default"), foo("a", `{"a":"x"}`))
	w := s.watch(s.at(foos), nil)
	at := s.at(crds, "", "foos.t.example.com")
	// A short name, a second version, and a selectable field, in one change.
	changed := strings.Replace(string(was.JSON()), `"singular":"foo"`, `"singular":"foo","shortNames":["fo"]`, 1)
	changed = strings.Replace(changed, `"versions":[{`,
		`"versions":[{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object",`+
			`"x-kubernetes-preserve-unknown-fields":true}}},{"selectableFields":[{"jsonPath":".spec.a"}],`, 1)
	s.update(at, changed)
	s.create(s.at(foos, "default"), foo("b", `{"a":"y"}`))
	if diff := cmp.Diff([]string{"ADDED default/a", "END", "ADDED default/b"}, w.take(3)); diff != "" {
		t.Error(diff)
	}
	// Objects from before the change can be selected by the new field.
	byField := func(o *wire.ListOptions) { o.Fields = fields.OneTermEqualSelector("spec.a", "x") }
	if diff := cmp.Diff([]string{"default/a"}, names(s.list(s.at(foos), byField))); diff != "" {
		t.Error(diff)
	}
	// An older watch continues, and also selects by the new field.
	old := s.watch(s.at(foos), func(o *wire.ListOptions) {
		byField(o)
		o.ResourceVersion = was.ResourceVersion().String()
	})
	s.merge(s.at(foos, "default", "a"), `{"spec":{"a":"z"}}`)
	if diff := cmp.Diff([]string{"ADDED default/a", "DELETED default/a"}, old.take(2)); diff != "" {
		t.Error(diff)
	}
	if o := s.get(s.at(foos, "default", "a")); o.UID() != first.UID() {
		t.Errorf("the object is %s", o.JSON())
	}
}

func TestVersionsOfAResourceShowTheSameObjects(t *testing.T) {
	s := serve(t)
	d := strings.Replace(definition(""), `"versions":[`,
		`"versions":[{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object",`+
			`"x-kubernetes-preserve-unknown-fields":true}}},`, 1)
	s.create(s.at(crds), d)
	v2 := "t.example.com/v2/foos"
	o := s.create(s.at(v2, "default"), `{"apiVersion":"t.example.com/v2","kind":"Foo","metadata":{"name":"a"},"spec":{"a":"1"}}`)
	if o.APIVersion() != "t.example.com/v2" || s.get(s.at(foos, "default", "a")).APIVersion() != "t.example.com/v1" {
		t.Errorf("created %s, got %s", o.JSON(), s.get(s.at(foos, "default", "a")).JSON())
	}
	w := s.watch(s.at(v2), nil)
	if is := s.update(s.at(v2, "default", "a"), string(o.JSON())); is.ResourceVersion() != o.ResourceVersion() {
		t.Errorf("the object itself as an update made %s", is.JSON())
	}
	s.merge(s.at(foos, "default", "a"), `{"spec":{"a":"2"}}`)
	for range 3 {
		if e := w.next(); e.Object != nil &&
			(e.Object.APIVersion() != "t.example.com/v2" ||
				!strings.Contains(string(e.Object.JSON()), `"apiVersion":"t.example.com/v2"`)) {
			t.Errorf("object %s", e.Object.JSON())
		}
	}
	for _, o := range items(s.list(s.at(v2), nil)) {
		if o.APIVersion() != "t.example.com/v2" {
			t.Errorf("listed %s", o.JSON())
		}
	}
}

func TestWatchOfAVersionThatIsNoLongerServedEnds(t *testing.T) {
	s := serve(t)
	d := strings.Replace(definition(""), `"versions":[`,
		`"versions":[{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},`, 1)
	was := s.create(s.at(crds), d)
	w := s.watch(s.at("t.example.com/v2/foos"), nil)
	w.take(1)
	s.update(s.at(crds, "", "foos.t.example.com"),
		strings.Replace(string(was.JSON()), `"served":true,"storage":false`, `"served":false,"storage":false`, 1))
	if _, err := w.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("read the next: %v", err)
	}
}

func TestDeletingADefinitionDeletesItsObjects(t *testing.T) {
	s := serve(t)
	if made := s.create(s.at(crds), definition("")); field(t, made, "metadata", "finalizers") != nil {
		t.Errorf("a new definition has finalizers: %s", made.JSON())
	}
	at := s.at(foos, "default")
	s.create(at, foo("a", `{}`))
	s.create(at, fooAt("held", `,"finalizers":["x.io/f"]`, ``))
	w, all := s.watch(at, nil), s.watch(s.at(crds), nil)
	out := s.delete(s.at(crds, "", "foos.t.example.com"))
	if out.Object == nil || !out.Object.Deleting() || !strings.Contains(string(out.Object.JSON()), `"type":"Terminating"`) {
		t.Fatalf("the answer is %+v", out)
	}
	_, err := s.Create(t.Context(), at, []byte(foo("late", `{}`)), metav1.CreateOptions{})
	if diff := cmp.Diff("405 MethodNotAllowed create not allowed while custom resource definition is terminating",
		status(err)); diff != "" {
		t.Error(diff)
	}
	w.until(kube.Modified, "default/held")
	heldAt := s.at(foos, "default", "held")
	s.merge(heldAt, `{"metadata":{"finalizers":null}}`)
	gone := all.until(kube.Deleted, "foos.t.example.com").ResourceVersion
	w.until(kube.Deleted, "default/held")
	if _, err := w.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("the watch ends with %v", err)
	}
	if _, found := s.live.Load().Lookup(at.Resource.GVR()); found {
		t.Error("the catalog still has it")
	}
	for name, err := range map[string]error{
		"list":   second(s.List(t.Context(), at, options(nil))),
		"get":    second(s.Get(t.Context(), heldAt, "")),
		"watch":  second(s.Watch(t.Context(), at, options(nil))),
		"create": second(s.Create(t.Context(), at, []byte(foo("x", `{}`)), metav1.CreateOptions{})),
	} {
		if wire.StatusOf(err).Code != 404 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Again, from nothing; what was watched before is another resource.
	s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "default"), foo("new", `{}`))
	if diff := cmp.Diff([]string{"default/new"}, names(s.list(s.at(foos), nil))); diff != "" {
		t.Error(diff)
	}
	if w.Position() > gone {
		t.Errorf("position %d of a watch that ended at %d", w.Position(), gone)
	}
}

func second[T any](_ T, err error) error { return err }

func TestDefinitionCannotReplaceABuiltInResource(t *testing.T) {
	s := serve(t)
	was, _ := s.live.Load().Lookup(kinds.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"})
	d := strings.NewReplacer("foos.t.example.com",
		"ingresses.networking.k8s.io", "t.example.com", "networking.k8s.io", `"foos"`, `"ingresses"`, `"Foo"`, `"Ingress"`).
		Replace(definition(`,"annotations":{"api-approved.kubernetes.io":"unapproved, a test"}`))
	_, err := s.Create(t.Context(), s.at(crds), []byte(d), metav1.CreateOptions{})
	if code := wire.StatusOf(err).Code; code != 422 {
		t.Errorf("%v", err)
	}
	if is, _ := s.live.Load().Lookup(was.GVR()); is != was {
		t.Error("the built-in resource is hidden")
	}
}

func TestDefinitionsAreServedAfterARestart(t *testing.T) {
	log := openLog(t)
	s, stop := serveOn(t, log, nil)
	s.create(s.at(crds), definition(""))
	o := s.create(s.at(foos, "default"), foo("a", `{}`))
	stop()
	s, _ = serveOn(t, log, nil)
	w := s.watch(s.at(foos), func(l *wire.ListOptions) { l.ResourceVersion = o.ResourceVersion().String() })
	s.merge(s.at(foos, "default", "a"), `{"spec":{"a":"2"}}`)
	if diff := cmp.Diff([]string{"MODIFIED default/a"}, w.take(1)); diff != "" {
		t.Error(diff)
	}
}

func TestBadStatusOfADefinitionDoesNotStopItsResource(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	at := s.at(crds, "", "foos.t.example.com", "status")
	s.merge(at, `{"status":{"acceptedNames":{"plural":"x","kind":""},"conditions":null,"storedVersions":["v1"]}}`)
	s.create(s.at(foos, "default"), foo("a", `{}`))
	if err := s.Ready(); err != nil {
		t.Errorf("wait until it is ready: %v", err)
	}
}

// TestRecreatedDefinitionHasItsOwnHistory deletes a definition and creates it again
// with another scope. No earlier object may be visible, also after a restart.
func TestRecreatedDefinitionHasItsOwnHistory(t *testing.T) {
	log := openLog(t)
	s, stop := serveOn(t, log, nil)
	s.create(s.at(crds), definition(""))
	before := s.create(s.at(foos, "default"), foo("a", `{"a":"1"}`)).ResourceVersion()
	all := s.watch(s.at(crds), nil)
	s.delete(s.at(crds, "", "foos.t.example.com"))
	all.until(kube.Deleted, "foos.t.example.com")
	again := s.create(s.at(crds), strings.Replace(definition(""), "Namespaced", "Cluster", 1)).ResourceVersion()
	s.create(s.at(foos), foo("b", `{"a":"1"}`))
	check := func(s *server) {
		t.Helper()
		for name, rv := range map[string]kube.ResourceVersion{"in the former life": before, "just before this one": again - 1} {
			o := options(func(o *wire.ListOptions) { o.ResourceVersion, o.RV = rv.String(), rv })
			_, err := s.Watch(t.Context(), s.at(foos), o)
			if e, is := errors.AsType[*kube.ExpiredError](err); !is || e.Oldest != again || e.Reason != kube.ReasonDefinition {
				t.Errorf("a watch from %s: %v", name, err)
			}
			o.Match = wire.MatchExact
			_, err = s.List(t.Context(), s.at(foos), o)
			if _, is := errors.AsType[*kube.ExpiredError](err); !is {
				t.Errorf("an exact list %s: %v", name, err)
			}
		}
		w, err := s.Watch(t.Context(), s.at(foos),
			options(func(o *wire.ListOptions) { o.ResourceVersion, o.RV = again.String(), again }))
		if err != nil {
			t.Fatalf("a watch from the beginning of this life: %v", err)
		}
		defer w.Close()
		events, err := w.Next(t.Context())
		if err != nil || len(events) != 1 || events[0].Object.Key().String() != "b" {
			t.Errorf("this life began with %v, %v", events, err)
		}
	}
	check(s)
	stop()
	restarted, _ := serveOn(t, log, nil)
	check(restarted)
}
