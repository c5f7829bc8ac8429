package builtin_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/conformance/builtin"
)

func none(string) bool { return false }

// TestMutationsLeaveOutWhatServersKeep: both forms of a value, a member of all items of a list, and
// that in another order.
func TestMutationsLeaveOutWhatServersKeep(t *testing.T) {
	const text = `{"spec":{"ip":"1","ips":["1"],"ports":[{"name":"a","port":1},{"name":"b"}]}}`
	o := object(t, []byte(text))
	got := map[string]string{}
	for _, c := range builtin.Mutate(o, builtin.Brief, none) {
		got[c.What] = string(c.Body)
	}
	for what, want := range map[string]string{
		"without spec.ip and spec.ips":      `{"spec":{"ports":[{"name":"a","port":1},{"name":"b"}]}}`,
		"spec.ports reversed":               `{"spec":{"ip":"1","ips":["1"],"ports":[{"name":"b"},{"name":"a","port":1}]}}`,
		"without spec.ports[*].port":        `{"spec":{"ip":"1","ips":["1"],"ports":[{"name":"a"},{"name":"b"}]}}`,
		"spec.ports reversed, without name": `{"spec":{"ip":"1","ips":["1"],"ports":[{},{"port":1}]}}`,
		"without spec.ports[0]":             `{"spec":{"ip":"1","ips":["1"],"ports":[{"name":"b"}]}}`,
	} {
		if diff := cmp.Diff(want, got[what]); diff != "" {
			t.Errorf("%s: -want +got:\n%s", what, diff)
		}
	}
	if left := string(body(t, o)); left != text {
		t.Errorf("the object is %s, want %s", left, text)
	}
}

// TestMutationsChangeOneThingEach also says that the object is left as it was.
func TestMutationsChangeOneThingEach(t *testing.T) {
	const text = `{"kind":"K","metadata":{"name":"a"},"spec":{"list":["x","y"],"map":{"on":true}}}`
	skip := func(path string) bool { return path == "kind" }
	o := object(t, []byte(text))
	got := map[string]string{}
	for _, c := range builtin.Mutate(o, builtin.Brief, skip) {
		got[c.What] = string(c.Body)
	}
	if left := string(body(t, o)); left != text {
		t.Errorf("the object is %s, want %s", left, text)
	}
	for what, want := range map[string]string{
		"without metadata.name":   `{"kind":"K","metadata":{},"spec":{"list":["x","y"],"map":{"on":true}}}`,
		"metadata.name = ":        `{"kind":"K","metadata":{"name":""},"spec":{"list":["x","y"],"map":{"on":true}}}`,
		"without spec":            `{"kind":"K","metadata":{"name":"a"}}`,
		"spec.list = []":          `{"kind":"K","metadata":{"name":"a"},"spec":{"list":[],"map":{"on":true}}}`,
		"spec.list[0] repeated":   `{"kind":"K","metadata":{"name":"a"},"spec":{"list":["x","y","x"],"map":{"on":true}}}`,
		"without spec.list[0]":    `{"kind":"K","metadata":{"name":"a"},"spec":{"list":["y"],"map":{"on":true}}}`,
		"spec.list[1] = yx":       `{"kind":"K","metadata":{"name":"a"},"spec":{"list":["x","yx"],"map":{"on":true}}}`,
		"spec.map = {}":           `{"kind":"K","metadata":{"name":"a"},"spec":{"list":["x","y"],"map":{}}}`,
		"spec.map.on = false":     `{"kind":"K","metadata":{"name":"a"},"spec":{"list":["x","y"],"map":{"on":false}}}`,
		"without spec.map.on":     `{"kind":"K","metadata":{"name":"a"},"spec":{"list":["x","y"],"map":{}}}`,
		"without spec.list":       `{"kind":"K","metadata":{"name":"a"},"spec":{"map":{"on":true}}}`,
		"without metadata":        "",
		"without kind":            "",
		"spec.list[0] = Not Val!": "",
	} {
		if got[what] != want {
			t.Errorf("%s: %s, want %s", what, got[what], want)
		}
	}
}

func TestDepthsAreOrdered(t *testing.T) {
	o := object(t, []byte(`{"spec":{"policy":"Always","list":["a"],"n":3}}`))
	var counts []int
	for _, depth := range []builtin.Depth{builtin.Removals, builtin.Brief, builtin.Full} {
		counts = append(counts, len(builtin.Mutate(o, depth, none)))
	}
	if !slices.IsSorted(counts) || counts[0] == counts[1] || counts[1] == counts[2] {
		t.Errorf("%v mutations, want more with each depth", counts)
	}
}

func TestGraftTakesWhatAnObjectLacks(t *testing.T) {
	to := object(t, []byte(`{"spec":{"a":1,"items":[{"x":1}]}}`))
	from := object(t, []byte(`{"spec":{"a":2,"b":{"c":3},"items":[{"x":5,"y":2}]},"status":{}}`))
	var got []string
	for _, c := range builtin.Graft(to, from, func(path string) bool { return path == "status" }) {
		got = append(got, string(c.Body))
	}
	want := []string{
		`{"spec":{"a":1,"b":{"c":3},"items":[{"x":1}]}}`,
		`{"spec":{"a":1,"items":[{"x":1,"y":2}]}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
