package jsontree_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

func TestExtractKeepsTheNeededPartsOnly(t *testing.T) {
	for _, c := range []struct {
		name, body, want string
		paths            []string
	}{
		{"members", `{"a":1,"b":{"c":[1, 2],"d":3},"e":{}}`, `{"b":{"c":[1, 2]},"e":{}}`, []string{"b.c", "e"}},
		{"nothing", `{"a":1}`, `{}`, []string{"b"}},
		{"names", `{"data":{"x":"long","y\n":{"z":1},"n":1.5},"a":0}`, `{"data":{"x":"","y\n":{},"n":1.5}}`, []string{"data.*"}},
		{"items", `{"l":[{"n":"a","x":1},{},"s"]}`, `{"l":[{"n":"a"},{},"s"]}`, []string{"l.*.n"}},
		{"count", `{"l":[{"n":"a"},[1],"s",null]}`, `{"l":[{},[],"",null]}`, []string{"l.*"}},
		{"whole and inside", `{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"c":2}}`, []string{"a.b", "a"}},
		{"other kinds", `{"a":"text","b":[1],"c":null}`, `{"a":"text","b":[1],"c":null}`, []string{"a.x", "b.x", "c.*"}},
		{"spaces", ` { "a" : 1 , "b" : 2 } `, `{"b":2}`, []string{"b"}},
		{"no object", `[1]`, `[1]`, []string{"a"}},
		{"broken", `{"a":1`, `{"a":1`, []string{"b"}},
		{"more than one", `{"a":1}2`, `{"a":1}2`, []string{"b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(jsontree.Extract([]byte(c.body), jsontree.Parts(c.paths...))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	if got := string(jsontree.Extract([]byte(`{"a":1}`), jsontree.Whole())); got != `{"a":1}` {
		t.Error(got)
	}
}

func TestPartsWithoutAMemberKeepTheOthers(t *testing.T) {
	const body = `{"m":{"t":1,"u":2},"s":{"t":3}}`
	for _, c := range []struct {
		parts []string
		has   bool
		want  string
	}{
		{[]string{"m.t", "s.t"}, false, `{"s":{"t":3}}`},
		{[]string{"m.t", "m.u"}, true, `{"m":{"u":2}}`},
		{[]string{"m.t", "m.*"}, true, `{"m":{"t":1,"u":2}}`}, // numbers are kept as they are
		{[]string{"m", "m.t"}, true, `{"m":{"t":1,"u":2}}`},
		{[]string{"*.t"}, true, `{"m":{"t":1},"s":{"t":3}}`},
		{[]string{"s"}, false, `{"s":{"t":3}}`},
	} {
		all := jsontree.Parts(c.parts...)
		before := string(jsontree.Extract([]byte(body), all))
		part := all.Without("m", "t")
		if got := string(jsontree.Extract([]byte(body), part)); got != c.want || part.Has("m") != c.has {
			t.Errorf("%v: %s, has m: %t", c.parts, got, part.Has("m"))
		}
		if after := string(jsontree.Extract([]byte(body), all)); after != before {
			t.Errorf("%v: the part itself was changed: %s", c.parts, after)
		}
	}
	if part := jsontree.Whole().Without("m", "t"); !part.Has("m") {
		t.Error("all of a value is not all of it any more")
	}
}

// FuzzExtract: what is extracted is in the object at the same place.
func FuzzExtract(f *testing.F) {
	for _, seed := range []string{
		`{"a":{"b":1,"c":[1]},"d":{"x":{"y":1},"z":[]}}`, `{"a":[],"d":[{"y":null}]}`, `{"d":"\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	part := jsontree.Parts("a.b", "d.*.y")
	f.Fuzz(func(t *testing.T, body []byte) {
		whole, err := jsontree.DecodePlain(body)
		if err != nil {
			jsontree.Extract(body, part)
			return
		}
		var got map[string]any
		out := jsontree.Extract(body, part)
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s of %s: %v", out, body, err)
		}
		var full map[string]any
		if json.Unmarshal(body, &full) != nil {
			t.Fatalf("%s is decoded as %v", body, whole)
		}
		at := func(tree map[string]any) []any {
			var found []any
			if a, is := tree["a"].(map[string]any); is {
				found = append(found, a["b"])
			} else {
				found = append(found, tree["a"])
			}
			switch d := tree["d"].(type) {
			case map[string]any:
				for name, v := range d {
					if m, is := v.(map[string]any); is && name == "x" {
						found = append(found, m["y"])
					}
				}
				found = append(found, len(d))
			case []any:
				for _, v := range d {
					if m, is := v.(map[string]any); is {
						found = append(found, m["y"])
					}
				}
				found = append(found, len(d))
			default:
				found = append(found, d)
			}
			return found
		}
		if diff := cmp.Diff(at(full), at(got)); diff != "" {
			t.Errorf("%s of %s: %s", out, body, diff)
		}
	})
}
