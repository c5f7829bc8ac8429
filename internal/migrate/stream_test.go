package migrate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/layout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paged returns objects "key=value" in pages of a size.
func paged(size int, all ...string) pages {
	return func(yield func([]object, error) bool) {
		for len(all) > 0 {
			n := min(size, len(all))
			page := make([]object, n)
			for i := range page {
				key, value, _ := strings.Cut(all[i], "=")
				page[i] = object{key: key, value: []byte(value)}
			}
			if !yield(page, nil) {
				return
			}
			all = all[n:]
		}
	}
}

const aDefinition = "customresourcedefinitions.apiextensions.k8s.io/d"

func TestBothSidesAreReadInOneOrder(t *testing.T) {
	a := []string{aDefinition, "configmaps/x/a", "configmaps/x/c", "events/x/a", "zebras.example.org/a"}
	b := []string{aDefinition, "configmaps/x/b", "configmaps/x/c", "zebras.example.org/b"}
	want := []string{
		aDefinition + " both", "configmaps/x/a a", "configmaps/x/b b", "configmaps/x/c both", "events/x/a a",
		"zebras.example.org/a a", "zebras.example.org/b b",
	}
	for _, size := range []int{1, 2, 10} {
		var got []string
		err := join(paged(size, a...), paged(3-min(size, 2), b...), func(a, b *object) error {
			switch {
			case a == nil:
				got = append(got, b.key+" b")
			case b == nil:
				got = append(got, a.key+" a")
			case a.key != b.key:
				return fmt.Errorf("%s meets %s", a.key, b.key)
			default:
				got = append(got, a.key+" both")
			}
			return nil
		})
		if err != nil {
			t.Fatalf("pages of %d: %v", size, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d: -want +got:\n%s", size, diff)
		}
	}
}

func TestTheFirstDifferenceIsNamed(t *testing.T) {
	same := []string{aDefinition + "=1", "configmaps/a=1", "configmaps/b=2", "secrets/a=3"}
	m := &mover{Options: Options{Progress: func(Step, int64, int64) {}}}
	var done Result
	if err := m.compare(paged(2, same...), paged(3, same...), &done, 4); err != nil {
		t.Fatalf("compare equal sides: %v", err)
	}
	if done.Source != done.Target || done.Objects != 4 || done.Source == (Digest{}) {
		t.Errorf("equal sides are %+v", done)
	}
	for name, c := range map[string]struct {
		other []string
		want  string
	}{
		"a value": {[]string{same[0], "configmaps/a=1", "configmaps/b=7", "secrets/a=9"}, "configmaps/b"},
		"missing": {[]string{same[0], "configmaps/b=2", "secrets/a=3"}, "configmaps/a"},
		"more":    {append([]string{same[0], "aardvarks.example.org/a=1"}, same[1:]...), "aardvarks.example.org/a"},
		"none":    {nil, aDefinition},
		"moved":   {[]string{same[0], "configmaps/a=1", "configmaps/b2=", "secrets/a=3"}, "configmaps/b"},
	} {
		var done Result
		differ, is := errors.AsType[*DifferenceError](m.compare(paged(2, same...), paged(2, c.other...), &done, 4))
		if !is || differ.Key != c.want || differ.Source == differ.Target {
			t.Errorf("%s: %+v, want that %s differs", name, differ, c.want)
		}
	}
}

func TestWhatAFormOfAnObjectDoesNotHaveIsFound(t *testing.T) {
	for _, c := range []struct{ from, in, want string }{
		{`{"a":1,"b":null}`, `{"a":1,"c":2}`, ""},
		{`{"a":{"b":[1,{"c":"x"}]}}`, `{"a":{"b":[1,{"c":"y"}]}}`, ".a.b[1].c"},
		{`{"a":[1,2]}`, `{"a":[1]}`, ".a"},
		{`{"a":{}}`, `{}`, ".a"},
		{`{"a":false}`, `{}`, ".a"},
		{`{"a":1}`, `{"a":"1"}`, ".a"},
		{`{"a":"x"}`, `{"a":{"b":1}}`, ".a"},
	} {
		if got := missing([]byte(c.from), []byte(c.in)); got != c.want {
			t.Errorf("%s in %s misses %q, want %q", c.from, c.in, got, c.want)
		}
	}
}

// TestWhatEtcdWouldNotKeepIsRefused: a field that servers of this version do not have, and a wrong kind.
func TestWhatEtcdWouldNotKeepIsRefused(t *testing.T) {
	m := &mover{live: kinds.NewLive(builtin.Catalog())}
	m.plain = layout.New("/registry", m.live)
	for name, c := range map[string]struct{ key, value, want string }{
		"an object": {
			"configmaps/x/a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"x"}}`, "",
		},
		"another field": {
			"configmaps/x/a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"x"},"z":{"y":1}}`, ".z",
		},
		"another kind": {"configmaps/x/a", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, "Pod"},
		"no object":    {"configmaps/x/a", `{`, "configmaps/x/a"},
		"no kind":      {"gadgets/x/a", `{"apiVersion":"v1","kind":"Gadget"}`, "gadgets/x/a"},
	} {
		o := object{key: c.key}
		o.value, o.err = m.plain.Decode(c.key, []byte(c.value))
		if o.err == nil {
			_, o.err = m.kept(&o, []byte(c.value))
		}
		if (o.err == nil) != (c.want == "") || o.err != nil && !strings.Contains(o.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, o.err, c.want)
		}
	}
}
