package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/storetest"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// foreign is a server over a store to which others write.
type foreign struct {
	*server

	list   *storetest.List
	inside *func(h store.Hole) // set before Miss: see slow
}

// serveForeign runs one. Its feed delivers as little at once as it may.
func serveForeign(t *testing.T) foreign {
	t.Helper()
	f := foreign{list: storetest.NewList(), inside: new(func(store.Hole))}
	f.server, _ = serveOn(t, openLog(t), func(store.Store) store.Store { return slow{f.list, f.inside} })
	return f
}

// slow is a store whose live feeds deliver one revision after the other. It calls inside when a
// part of a difference was published.
type slow struct {
	store.Store

	inside *func(h store.Hole)
}

func (s slow) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	if !f.Hold {
		return s.Store.Changes(ctx, f)
	}
	f.Limit = 1
	feed, err := s.Store.Changes(ctx, f)
	return &slowFeed{Changes: feed, inside: s.inside}, err
}

type slowFeed struct {
	store.Changes

	inside *func(h store.Hole)
	last   store.Batch
}

func (f *slowFeed) Next(ctx context.Context) (store.Batch, error) {
	for _, h := range f.last.Holes {
		if call := *f.inside; h.Has(f.last.Through) && call != nil {
			call(h)
		}
	}
	var err error
	f.last, err = f.Changes.Next(ctx)
	return f.last, err
}

// storedAs is the write of an object as another server stores it: "configmaps/default/a", or a
// deletion if body is "".
func storedAs(key, body string) store.Txn {
	return store.Txn{Key: key, Value: []byte(body), Delete: body == ""}
}

func storedMap(name, data string) store.Txn {
	return storedAs("configmaps/default/"+name, fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","uid":"u-%s"},"data":{"a":%q}}`,
		name, name, data))
}

func gone(name string) store.Txn { return storedAs("configmaps/default/"+name, "") }

func storedSecret(name string) store.Txn {
	return storedAs("secrets/default/"+name, fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"namespace":"default","uid":"u-%s"}}`, name, name))
}

// storedFoo is a custom object.
func storedFoo(name, a string) store.Txn {
	return storedAs("foos.t.example.com/default/"+name, fmt.Sprintf(
		`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":%q,"namespace":"default","uid":"u-%s"},"spec":{"a":%q}}`,
		name, name, a))
}

// storedDefinition is that of foos, as a server has created it, with more in its version.
func storedDefinition(t *testing.T, more string) store.Txn {
	t.Helper()
	s := serve(t)
	made := s.create(s.at(crds), strings.Replace(definition(""), `"served":true,`, `"served":true,`+more, 1))
	return storedAs("customresourcedefinitions.apiextensions.k8s.io/foos.t.example.com", string(made.JSON()))
}

// since is a watch after a revision.
func (f foreign) since(t kinds.Target, revision int64) *watcher {
	f.t.Helper()
	return f.watch(t, func(o *wire.ListOptions) { o.ResourceVersion = strconv.FormatInt(revision, 10) })
}

// reached waits until a resource shows everything up to a revision.
func (f foreign) reached(t kinds.Target, revision int64) *wire.List {
	f.t.Helper()
	return f.server.list(t, func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match = strconv.FormatInt(revision, 10), wire.MatchNotOlderThan
	})
}

func TestChangesOfOneRevisionBecomeVisibleTogether(t *testing.T) {
	f := serveForeign(t)
	maps, secrets := f.at("configmaps", "default"), f.at("secrets", "default")
	start := f.list.Together(storedMap("a", "0"))
	f.reached(maps, start)
	w := f.since(maps, start) // the first cache that gets them
	for i := range 50 {
		data := fmt.Sprint(i)
		revision := f.list.Together(storedMap("a", data), storedSecret("s"+data), storedMap("b", data))
		events, err := w.Next(t.Context())
		if err != nil || len(events) != 2 {
			t.Fatalf("%d events come together, %v", len(events), err)
		}
		for _, e := range events {
			if got := field(t, e.Object, "data", "a"); e.ResourceVersion != kube.ResourceVersion(revision) || got != data {
				t.Fatalf("%s has %v at %d, want %s at %d", e.Object.Key(), got, e.ResourceVersion, data, revision)
			}
		}
		if got := names(f.reached(secrets, revision)); !slices.Contains(got, "default/s"+data) {
			t.Fatalf("the secrets at %d lack the one of the same revision: %v", revision, got)
		}
	}
	deleted := f.list.Together(gone("a"), gone("b"))
	expiry := f.since(maps, deleted-1)
	for _, name := range []string{"a", "b"} {
		e := expiry.next()
		if e.Type != kube.Deleted || e.Object.Key().Name != name || e.ResourceVersion != kube.ResourceVersion(deleted-1) {
			t.Errorf("%s %s at %d, want a deletion of %s at %d", e.Type, e.Object.Key(), e.ResourceVersion, name, deleted-1)
		}
	}
	if got := expiry.Position(); got != kube.ResourceVersion(deleted) {
		t.Errorf("after all deletions the watch is at %d, want %d", got, deleted)
	}
}

func TestADefinitionAndItsObjectsCanChangeAtOneRevision(t *testing.T) {
	plain, selectable := storedDefinition(t, ""), storedDefinition(t, `"selectableFields":[{"jsonPath":".spec.a"}],`)
	f := serveForeign(t)
	definitions := f.at(crds)
	created := f.list.Together(plain, storedFoo("x", "1"), storedMap("a", "1"))
	f.reached(definitions, created)
	if diff := cmp.Diff([]string{"default/x"}, names(f.reached(f.at(foos), created))); diff != "" {
		t.Errorf("foos (-want +got):\n%s", diff)
	}
	w := f.since(f.at(foos), created)
	changed := f.list.Together(selectable, storedFoo("x", "2"), storedFoo("y", "2"))
	f.reached(definitions, changed)
	selected := f.server.list(f.at(foos), func(o *wire.ListOptions) {
		o.ResourceVersion, o.Fields = strconv.FormatInt(changed, 10), fields.ParseSelectorOrDie("spec.a=2")
	})
	if diff := cmp.Diff([]string{"default/x", "default/y"}, names(selected)); diff != "" {
		t.Errorf("foos with a=2 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"MODIFIED default/x", "ADDED default/y"}, w.take(2)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	ended := f.list.Together(storedAs(plain.Key, ""), storedAs("foos.t.example.com/default/x", ""))
	if diff := cmp.Diff([]string{"DELETED default/x"}, w.take(1)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	f.reached(definitions, ended)
	if got := names(f.server.list(definitions, nil)); len(got) != 0 {
		t.Errorf("there are definitions: %v", got)
	}
}

func TestADifferenceOverAHoleIsShownAtOnce(t *testing.T) {
	f := serveForeign(t)
	maps := f.at("configmaps", "default")
	before := f.list.Together(storedMap("a", "1"), storedMap("b", "1"), storedMap("c", "1"), storedMap("d", "1"))
	f.reached(maps, before)
	page := f.server.list(maps, func(o *wire.ListOptions) { o.Limit = 2 })
	w, quiet := f.since(maps, before), f.since(f.at("secrets", "default"), before)
	parts := 0
	*f.inside = func(h store.Hole) { // only the publisher calls it
		parts++
		list := f.server.list(maps, func(o *wire.ListOptions) { o.ResourceVersion = "0" })
		if int64(list.ResourceVersion) != h.From || w.Position() != list.ResourceVersion || len(items(list)) != 4 {
			t.Errorf("within the difference over %+v there are %v at %d", h, names(list), list.ResourceVersion)
		}
	}
	h := f.list.Miss(func() {
		f.list.Together(storedMap("a", "2"), gone("b"))
		f.list.Together(gone("c"))
		f.list.Together(storedMap("c", "new"))
		f.list.Together(storedMap("e", "1"))
	})
	if h.From != before {
		t.Fatalf("the hole is %+v after %d", h, before)
	}
	list := f.reached(maps, h.To)
	if parts < 2 {
		t.Errorf("the difference came in %d parts", parts)
	}
	if list.ResourceVersion != kube.ResourceVersion(h.To) {
		t.Errorf("the list is at %d, want %d", list.ResourceVersion, h.To)
	}
	if diff := cmp.Diff([]string{"default/a", "default/c", "default/d", "default/e"}, names(list)); diff != "" {
		t.Errorf("the state (-want +got):\n%s", diff)
	}
	want := []string{"DELETED default/b", "DELETED default/c", "MODIFIED default/a", "ADDED default/c", "ADDED default/e"}
	for _, from := range []*watcher{w, f.since(maps, before)} {
		var got []string
		for len(got) < len(want) {
			events, err := from.Next(t.Context())
			if err != nil {
				t.Fatalf("read the watch: %v", err)
			}
			for _, e := range events {
				got = append(got, e.Type.String()+" "+e.Object.Key().String())
			}
			if at := from.Position(); h.Has(int64(at)) {
				t.Errorf("the watch is at %d, inside the hole %+v", at, h)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
	for _, at := range []*watcher{w, quiet} {
		if got := at.Position(); got != kube.ResourceVersion(h.To) {
			t.Errorf("a watch is at %d, want %d", got, h.To)
		}
	}
	for rv := h.From; rv <= h.To; rv++ {
		at := func(match wire.Match) wire.ListOptions {
			return options(func(o *wire.ListOptions) { o.ResourceVersion, o.Match = strconv.FormatInt(rv, 10), match })
		}
		_, list := f.List(t.Context(), maps, at(wire.MatchExact))
		watch, err := f.Watch(t.Context(), maps, at(""))
		if err == nil {
			watch.Close()
		}
		for name, err := range map[string]error{"list": list, "watch": err} {
			e, inside := expired(err), h.Has(rv)
			if inside != (e != nil && e.Reason == kube.ReasonUnseen) || !inside && err != nil {
				t.Errorf("%s at %d over %+v: %v", name, rv, h, err)
			}
		}
	}
	rest := f.server.list(maps, func(o *wire.ListOptions) { o.Continue = page.Continue })
	if diff := cmp.Diff([]string{"default/c", "default/d"}, names(rest)); diff != "" {
		t.Errorf("the rest of the list that began before the hole (-want +got):\n%s", diff)
	}
}

func TestADefinitionThatWasNotSeenIsServedWithItsObjects(t *testing.T) {
	definition := storedDefinition(t, "")
	f := serveForeign(t)
	f.reached(f.at(crds), f.list.Together(storedMap("a", "1")))
	h := f.list.Miss(func() {
		f.list.Together(definition)
		f.list.Together(storedFoo("x", "1"))
		f.list.Together(storedFoo("x", "2"), storedFoo("y", "1"))
	})
	f.reached(f.at(crds), h.To)
	list := f.reached(f.at(foos), h.To)
	if diff := cmp.Diff([]string{"default/x", "default/y"}, names(list)); diff != "" {
		t.Errorf("foos (-want +got):\n%s", diff)
	}
	w := f.since(f.at(foos), h.To)
	f.list.Together(storedFoo("y", "2"), storedFoo("z", "1"))
	if diff := cmp.Diff([]string{"MODIFIED default/y", "ADDED default/z"}, w.take(2)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	gone := f.list.Miss(func() {
		f.list.Together(storedAs("foos.t.example.com/default/x", ""))
		f.list.Together(storedAs(definition.Key, ""))
	})
	f.reached(f.at(crds), gone.To)
	if diff := cmp.Diff([]string{"DELETED default/x"}, w.take(1)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
