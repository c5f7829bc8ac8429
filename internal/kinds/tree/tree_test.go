package tree_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/kinds/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatIsMissingIsMadeAndWhatIsThereStays(t *testing.T) {
	o := tree.Object{"a": tree.Object{"b": nil, "text": "x"}, "list": []any{"no object", tree.Object{"n": int64(1)}}}
	tree.Set(tree.Made(o, "a", "b"), "c", "new")
	tree.Set(tree.Child(o, "a"), "text", "y")
	tree.Set(o, "empty", nil)
	o["blank"] = ""
	tree.Set(o, "blank", "filled")
	o["pointer"] = ""
	tree.SetPointer(o, "pointer", "not filled")
	for item := range tree.Items(o, "list") {
		tree.SetPointer(item, "m", true)
	}
	want := tree.Object{
		"a":     tree.Object{"b": tree.Object{"c": "new"}, "text": "x"},
		"list":  []any{"no object", tree.Object{"n": int64(1), "m": true}},
		"blank": "filled", "pointer": "",
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !tree.Is(slices.Collect(tree.Items(o, "list"))[0], "m") {
		t.Error("a boolean that is true is not")
	}
}

// Defaults of parts that an object does not have do nothing.
func TestWhatIsNotThereIsReadAsEmpty(t *testing.T) {
	o := tree.Object{"text": "x"}
	for name, got := range map[string]tree.Object{
		"child of nothing": tree.Child(nil, "a", "b"), "child of a text": tree.Child(o, "text", "b"),
		"made in nothing": tree.Made(nil, "a"), "made in a text": tree.Made(o, "text", "b"),
	} {
		if got != nil {
			t.Errorf("%s: got %v, want nothing", name, got)
		}
	}
	tree.Set(nil, "a", 1)
	tree.SetPointer(nil, "a", 1)
	if diff := cmp.Diff(tree.Object{"text": "x"}, o); diff != "" {
		t.Errorf("the object has changed (-want +got):\n%s", diff)
	}
}

func TestWhatIsTakenIsACopy(t *testing.T) {
	from := tree.Object{"a": tree.Object{"b": "x"}}
	into := tree.Object{"a": "old", "gone": "old"}
	tree.Take(into, from, "a")
	tree.Take(into, from, "gone")
	tree.Child(into, "a")["b"] = "changed"
	if diff := cmp.Diff(tree.Object{"a": tree.Object{"b": "x"}}, from); diff != "" {
		t.Errorf("the source has changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(tree.Object{"a": tree.Object{"b": "changed"}}, into); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
