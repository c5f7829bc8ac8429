package dashboard

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/past"
)

func TestNoPageHasTheDataOfASecret(t *testing.T) {
	secret := func(value string) object {
		return object{
			"data": object{"key": value},
			"metadata": object{
				"name":        "a",
				"annotations": object{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"key":"` + value + `"}}`},
			},
		}
	}
	before, after := secret("czNjcjN0LTE="), secret("czNjcjN0LTI=")
	with := past.NewMasker()
	c := &change{Type: "MODIFIED", Object: masked(with, after), Previous: masked(with, before)}
	rows, _ := differ(c.states())
	shown := asYAML(c.Previous) + asYAML(c.Object) + whatOf(c).Short
	for _, r := range rows {
		shown += r.Old + r.New
	}
	if strings.Contains(shown, "czNjcjN0") || strings.Contains(shown, "s3cr3t") {
		t.Errorf("it is shown: %s", shown)
	}
	if want := "data.key (8 bytes, hash "; !strings.HasPrefix(whatOf(c).Short, want) {
		t.Errorf("%q, want %q", whatOf(c).Short, want)
	}
	if before["data"].(object)["key"] != "czNjcjN0LTE=" || before["kind"] != nil { //nolint:forcetypeassert // of this test
		t.Error("the object itself is changed")
	}
}

func TestWhatIsRemovedStandsBesideWhatIsAddedInItsPlace(t *testing.T) {
	before := object{"a": object{"b": "1", "c": "2", "d": "3"}, "z": "9"}
	after := object{"a": object{"b": "1", "c": "4", "d": "5", "e": "6"}, "z": "9"}
	rows, more := differ(before, after)
	want := []row{
		{"same", "a:", "a:"},
		{"same", `  b: "1"`, `  b: "1"`},
		{"changed", `  c: "2"`, `  c: "4"`},
		{"changed", `  d: "3"`, `  d: "5"`},
		{"added", "", `  e: "6"`},
		{"same", `z: "9"`, `z: "9"`},
	}
	if !slices.Equal(rows, want) || more != 0 {
		t.Errorf("%v and %d more, want %v", rows, more, want)
	}
	if rows, _ := differ(nil, object{"a": "1"}); !slices.Equal(rows, []row{{"added", "", `a: "1"`}}) {
		t.Errorf("of a new object: %v", rows)
	}
	far := object{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1", "f": "1"}
	changed := maps.Clone(far)
	changed["f"] = "2"
	if rows, _ := differ(far, changed); rows[0] != (row{gap, "⋯", "⋯"}) {
		t.Errorf("of what is far from the beginning: %v", rows)
	}
	long := object{}
	for i := range 2 * maxRows {
		long[strconv.Itoa(i)] = strings.Repeat("ä", 2*maxLine)
	}
	if rows, more := differ(long, nil); len(rows) != maxRows || more != maxRows ||
		len([]rune(rows[1].Old)) > maxLine+40 {
		t.Errorf("of a large object: %d rows and %d more", len(rows), more)
	}
}

// differ is sideBySide with room for everything.
func differ(before, after object) ([]row, int) {
	room := 1 << 30
	return sideBySide(before, after, &room)
}

func TestTextsAreCutToWhatTheyHaveInAPage(t *testing.T) {
	for text, want := range map[string]string{"abc": "abc", `""""`: `""…`, "äöü": "äöü", "äöüäöüä": "äöüäö…", "": ""} {
		if got := brief(text, 11); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	room := 200
	if rows, more := sideBySide(nil, object{"a": strings.Repeat(`"`, 30), "b": "1"}, &room); len(rows) != 0 || more != 2 {
		t.Errorf("of what does not fit: %v and %d more", rows, more)
	}
}
