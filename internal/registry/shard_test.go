package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	upstream "k8s.io/apiserver/pkg/sharding"

	"github.com/gapless-io/gapless/internal/wire"
)

const byUID = "object.metadata.uid"

// ranges writes a shard selector: pairs of bounds.
func ranges(field string, bounds ...string) string {
	var parts []string
	for pair := range slices.Chunk(bounds, 2) {
		parts = append(parts, fmt.Sprintf("shardRange(%s, '%s', '%s')", field, pair[0], pair[1]))
	}
	return strings.Join(parts, " || ")
}

// The bounds of all hashes, and two between.
const (
	lowest  = "0x0000000000000000"
	quarter = "0x4000000000000000"
	half    = "0x8000000000000000"
	highest = "0x10000000000000000"
)

func sharded(text string) func(*wire.ListOptions) {
	return func(o *wire.ListOptions) { o.Shard = text }
}

// owned are those of the objects that upstream's selector takes.
func owned(t *testing.T, selector string, all []*wire.Object) []string {
	t.Helper()
	sel, err := upstream.Parse(selector)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	keys := []string{}
	for _, o := range all {
		is, err := sel.Matches(&metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{UID: o.UID(), Namespace: o.Key().Namespace},
		})
		if err != nil {
			t.Fatalf("match the selector: %v", err)
		}
		if is {
			keys = append(keys, o.Key().String())
		}
	}
	return keys
}

func TestShardsMatchUpstreamAndCoverTheList(t *testing.T) {
	s := serve(t)
	for _, namespace := range []string{"default", "kube-system", "kube-public"} {
		for i := range 30 {
			s.create(s.at("configmaps", namespace), configMap(fmt.Sprintf("c%02d", i)))
		}
	}
	cms := s.at("configmaps")
	whole := s.list(cms, nil)
	all := items(whole)
	for _, split := range [][]string{
		{ranges(byUID, lowest, half), ranges(byUID, half, highest)},
		{ranges(byUID, lowest, quarter, half, highest), ranges(byUID, quarter, half)},
		{ranges("object.metadata.namespace", lowest, half), ranges("object.metadata.namespace", half, highest)},
		{ranges(byUID, lowest, highest)},
	} {
		union := []string{}
		for _, selector := range split {
			list := s.list(cms, sharded(selector))
			got := names(list)
			if diff := cmp.Diff(owned(t, selector, all), got); diff != "" || list.Shard != selector ||
				list.ResourceVersion != whole.ResourceVersion {
				t.Errorf("%s: info %q at %d (-want +got):\n%s", selector, list.Shard, list.ResourceVersion, diff)
			}
			if len(split) > 1 && strings.Contains(selector, byUID) && (len(got) == 0 || len(got) == len(all)) {
				t.Errorf("%s takes %d of %d", selector, len(got), len(all))
			}
			paged := []string{}
			for o := (wire.ListOptions{}); ; {
				page := s.list(cms, func(p *wire.ListOptions) { p.Shard, p.Limit, p.Continue = selector, 7, o.Continue })
				if paged = append(paged, names(page)...); page.Remaining != nil || page.Shard != selector {
					t.Errorf("%s: a page says %v remain, and %q", selector, page.Remaining, page.Shard)
				}
				if o.Continue = page.Continue; o.Continue == "" {
					break
				}
			}
			if diff := cmp.Diff(got, paged); diff != "" {
				t.Errorf("%s in pages (-want +got):\n%s", selector, diff)
			}
			union = append(union, got...)
		}
		slices.Sort(union)
		if want := names(whole); !slices.Equal(union, slices.Sorted(slices.Values(want))) {
			t.Errorf("%v together are %v", split, union)
		}
	}
	if whole.Shard != "" {
		t.Errorf("a whole list is of the shard %q", whole.Shard)
	}
}

func TestWatchOfAShardGetsOnlyItsObjects(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	mine, other := s.create(cms, configMap("mine")), s.create(cms, configMap("other"))
	bound := "0x" + sharding.HashField(string(mine.UID()))
	selector := ranges(byUID, bound, highest)
	if sharding.HexLess(bound, "0x"+sharding.HashField(string(other.UID()))) {
		bound = "0x" + sharding.HashField(string(other.UID()))
		selector = ranges(byUID, lowest, bound)
	}
	w := s.watch(cms, sharded(selector))
	late := s.watch(cms, func(o *wire.ListOptions) {
		o.Shard, o.ResourceVersion = selector, (mine.ResourceVersion() - 1).String()
	})
	if diff := cmp.Diff([]string{"ADDED default/mine", "END"}, w.take(2)); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"other", "mine"} {
		s.merge(s.at("configmaps", "default", name), `{"data":{"a":"2"}}`)
	}
	s.delete(s.at("configmaps", "default", "other"))
	s.delete(s.at("configmaps", "default", "mine"))
	want := []string{"MODIFIED default/mine", "DELETED default/mine"}
	if diff := cmp.Diff(want, w.take(2)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(append([]string{"ADDED default/mine"}, want...), late.take(3)); diff != "" {
		t.Error(diff)
	}
	delta := s.watch(cms, func(o *wire.ListOptions) {
		yes := true
		o.Shard, o.ResourceVersion, o.Match, o.InitialEvents, o.Bookmarks, o.Delta = selector, other.ResourceVersion().String(),
			wire.MatchNotOlderThan, &yes, true, true
	})
	if lines, end := delta.initial(); len(lines) != 1 || !strings.HasPrefix(lines[0], "DELETED default/mine@") ||
		end.Since != other.ResourceVersion() {
		t.Errorf("the delta of the shard is %v, %+v", lines, end)
	}
}

func TestDeleteCollectionOfAShardKeepsOtherShards(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	var all []*wire.Object
	for i := range 40 {
		all = append(all, s.create(cms, configMap(fmt.Sprintf("c%02d", i))))
	}
	mine := ranges(byUID, lowest, half)
	deleted, err := s.DeleteCollection(t.Context(), cms, metav1.DeleteOptions{}, options(sharded(mine)))
	if err != nil {
		t.Fatalf("delete the collection: %v", err)
	}
	if diff := cmp.Diff(owned(t, mine, all), names(deleted)); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(owned(t, ranges(byUID, half, highest), all), names(s.list(cms, nil))); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestBadShardSelectorsAreBadRequests has upstream's texts; its code is 500.
func TestBadShardSelectorsAreBadRequests(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	s.create(cms, configMap("a"))
	for selector, want := range map[string]string{
		" ":           "empty shard selector is not allowed; omit the parameter for unfiltered lists",
		"x":           "unexpected expression kind",
		"shardRange(": "CEL parse error: ",
		"true":        "unexpected expression kind",
		ranges(byUID, lowest,
			"0x8"): `hexEnd must be a 0x-prefixed 16-digit hex value, got "0x8" (did you mean "0x0000000000000008"?)`,
		ranges(byUID, "8", highest):     "hexStart must have '0x' prefix",
		ranges(byUID, half, lowest):     "shard range start " + half + " must be less than end " + lowest,
		ranges(byUID, half, half):       "must be less than end",
		ranges(byUID, highest, highest): "must be less than end",
		ranges(byUID, lowest,
			"0x20000000000000000"): "17-digit hex value must be '0x10000000000000000' (2^64)",
		ranges(byUID, lowest, "0xFFFFFFFFFFFFFFFF"):  "invalid hex character",
		ranges("object.metadata.name", lowest, half): "unsupported field path",
		ranges("metadata.uid", lowest, half):         "unsupported field path",
		ranges(byUID, lowest, half) + " || " + ranges("object.metadata.namespace",
			half, highest): "all shard ranges must use the same field",
		ranges(byUID, lowest, half) + " && " + ranges(byUID, lowest,
			half): "only shardRange() and || are allowed",
		"!" + ranges(byUID, lowest,
			half): "only shardRange() and || are allowed",
		strings.Repeat("(", 300) + ranges(byUID, lowest, half) + strings.Repeat(")",
			300): "expression recursion limit exceeded",
		strings.Repeat(ranges(byUID, lowest, half)+" || ", 1000) + ranges(byUID, lowest, half): "at most 32768 are allowed",
		"shardRange(object.metadata.uid, '" + lowest + "')":                                    "requires exactly 3 arguments",
		"shardRange(object.metadata.uid, " + lowest + ", '" + half +
			"')": "hexStart must be a string literal",
	} {
		check := func(verb string, err error) {
			t.Helper()
			if got := status(err); !strings.HasPrefix(got, "400 BadRequest invalid shard selector: ") ||
				!strings.Contains(got, want) {
				t.Errorf("%s %.100q: %.200s, want %q", verb, selector, got, want)
			}
		}
		_, err := s.List(t.Context(), cms, options(sharded(selector)))
		check("list", err)
		_, err = s.Watch(t.Context(), cms, options(sharded(selector)))
		check("watch", err)
		_, err = s.DeleteCollection(t.Context(), cms, metav1.DeleteOptions{}, options(sharded(selector)))
		check("delete", err)
	}
	if got := names(s.list(cms, nil)); len(got) != 1 {
		t.Errorf("what was refused has deleted: %v are left", got)
	}
}

// FuzzShardSelector lists and watches by anything: it is refused with 400, or says
// of itself what selects the same.
func FuzzShardSelector(f *testing.F) {
	f.Add(ranges(byUID, lowest, half))
	f.Add(ranges(byUID, lowest, quarter, half, highest))
	f.Add("(" + ranges("object.metadata.namespace", half, highest) + ")")
	f.Add(`shardRange(object["metadata"].uid, r"0x0000000000000000", '''0x8000000000000000''') // comment`)
	f.Add("[" + ranges(byUID, lowest, half) + "].exists(x, x)")
	shared := serve(f)
	for i := range 10 {
		shared.create(shared.at("configmaps", "default"), configMap(fmt.Sprint("c", i)))
	}
	f.Fuzz(func(t *testing.T, selector string) {
		s := &server{Registry: shared.Registry, t: t, log: shared.log, live: shared.live}
		cms := s.at("configmaps", "default")
		list, err := s.List(t.Context(), cms, options(sharded(selector)))
		w, watchErr := s.Watch(t.Context(), cms, options(sharded(selector)))
		if (err == nil) != (watchErr == nil) {
			t.Fatalf("list: %v, watch: %v", err, watchErr)
		}
		if err != nil {
			if wire.StatusOf(err).Code != 400 || wire.StatusOf(watchErr).Code != 400 {
				t.Fatalf("%q: %v, %v", selector, err, watchErr)
			}
			return
		}
		w.Close()
		if again := s.list(cms, sharded(list.Shard)); again.Shard != list.Shard || !slices.Equal(names(again), names(list)) {
			t.Fatalf("%q calls itself %q, which is %q and selects %v, not %v",
				selector, list.Shard, again.Shard, names(again), names(list))
		}
	})
}
