package index_test

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/index"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// thing has values, separated by commas.
type thing struct {
	metav1.ObjectMeta

	values string
}

func newThing(name, values string) handle.Handle[*thing] {
	return handle.Of(&thing{ObjectMeta: metav1.ObjectMeta{Name: name}, values: values})
}

// byValue splits a thing's values, and panics at "!".
func byValue(panics *[]string) *index.Function[*thing, string] {
	return &index.Function[*thing, string]{
		Values: func(buffer []string, o *thing) []string {
			if o.values == "!" {
				panic("the function cannot do this")
			}
			return append(buffer, strings.Split(o.values, ",")...)
		},
		Panicked: func(key handle.Key, _ string, err *incident.PanicError) {
			*panics = append(*panics, fmt.Sprint(key.Name, ": ", err.Value))
		},
	}
}

func listed(s *index.State[*thing, string]) map[string][]string {
	all := map[string][]string{}
	for v := range s.Set().Values() {
		for h := range s.Set().Get(v) {
			all[v] = append(all[v], h.GetName()+"="+h.Get().values)
		}
	}
	return all
}

func TestAnIndexFollowsTheChangesOfItsState(t *testing.T) {
	var panics []string
	f := byValue(&panics)
	tree := state.NewTree[*thing]()
	a, b := newThing("a", "x,y"), newThing("b", "y,y")
	tree.Put(a)
	tree.Put(b)
	first := f.Build(tree)
	want := map[string][]string{"x": {"a=x,y"}, "y": {"a=x,y", "b=y,y"}}
	if diff := gocmp.Diff(want, listed(first)); diff != "" {
		t.Errorf("built (-want +got):\n%s", diff)
	}
	newer := newThing("a", "y,z")
	next := first.Next([]state.Change[*thing]{
		{Key: handle.KeyOf(a), Old: a, New: newer},
		{Key: handle.KeyOf(b), Old: b},
	})
	if diff := gocmp.Diff(map[string][]string{"y": {"a=y,z"}, "z": {"a=y,z"}}, listed(next)); diff != "" {
		t.Errorf("after changes (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(want, listed(first)); diff != "" {
		t.Errorf("the older state has changed (-want +got):\n%s", diff)
	}
	if !next.Of(f) || next.Of(byValue(&panics)) {
		t.Error("an index does not know its function")
	}
}

func TestAnObjectThatMakesTheFunctionPanicIsLeftOut(t *testing.T) {
	var panics []string
	f := byValue(&panics)
	bad, good := newThing("a", "!"), newThing("a", "x")
	s := f.Build(state.NewTree[*thing]()).Next([]state.Change[*thing]{{Key: handle.KeyOf(bad), New: bad}})
	if len(listed(s)) != 0 {
		t.Errorf("the index has %v", listed(s))
	}
	s = s.Next([]state.Change[*thing]{{Key: handle.KeyOf(good), Old: bad, New: good}})
	if diff := gocmp.Diff(map[string][]string{"x": {"a=x"}}, listed(s)); diff != "" {
		t.Errorf("after its next state (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"a: the function cannot do this"}, panics); diff != "" {
		t.Errorf("reported panics (-want +got):\n%s", diff)
	}
}
