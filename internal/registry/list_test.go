package registry_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestGetByResourceVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		o := s.create(s.at("configmaps", "default"), configMap("a"))
		at := s.at("configmaps", "default", "a")
		began := time.Now()
		for _, rv := range []string{"", "0", "1", o.ResourceVersion().String()} {
			if got, err := s.Get(t.Context(), at, rv); err != nil || got != o {
				t.Errorf("rv %q: %v", rv, err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("reads of what is there waited %v", took)
		}
		_, err := s.Get(t.Context(), at, "9999999999")
		want := fmt.Sprintf("504 Timeout Timeout: Too large resource version: 9999999999, current: %d", o.ResourceVersion())
		if diff := cmp.Diff(want, status(err)); diff != "" {
			t.Error(diff)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("waited %v for the future, want 3s", took)
		}
		for rv, want := range map[string]string{
			"abc": `400 BadRequest invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing ` +
				`"abc": invalid syntax`,
			"-5": `400 BadRequest invalid resource version: resourceVersion: Invalid value: "-5": strconv.ParseUint: parsing ` +
				`"-5": invalid syntax`,
		} {
			_, err := s.Get(t.Context(), at, rv)
			if diff := cmp.Diff(want, status(err)); diff != "" {
				t.Error(diff)
			}
		}
		at.Name = "nope"
		_, err = s.Get(t.Context(), at, "0")
		if diff := cmp.Diff(`404 NotFound configmaps "nope" not found`, status(err)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestListByResourceVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		cms := s.at("configmaps", "default")
		first := s.create(cms, configMap("a")).ResourceVersion()
		s.create(cms, configMap("b"))
		last := s.create(cms, configMap("c")).ResourceVersion()
		for _, c := range []struct {
			name      string
			rv        string
			match     wire.Match
			limit     int64
			want      []string
			at        kube.ResourceVersion
			continues bool
		}{
			{"most recent", "", "", 0, []string{"a", "b", "c"}, last, false},
			{"most recent, page", "", "", 2, []string{"a", "b"}, last, true},
			{"any", "0", "", 0, []string{"a", "b", "c"}, last, false},
			{"any ignores the limit", "0", "", 1, []string{"a", "b", "c"}, last, false},
			{"not older, by default", first.String(), "", 0, []string{"a", "b", "c"}, last, false},
			{"exact, by limit", first.String(), "", 5, []string{"a"}, first, false},
			{"exact", first.String(), wire.MatchExact, 0, []string{"a"}, first, false},
			{"exact before everything", "1", wire.MatchExact, 0, []string{}, 1, false},
			{"not older", first.String(), wire.MatchNotOlderThan, 1, []string{"a"}, last, true},
			{"not older than any", "0", wire.MatchNotOlderThan, 0, []string{"a", "b", "c"}, last, false},
		} {
			list := s.list(cms, func(o *wire.ListOptions) { o.ResourceVersion, o.Match, o.Limit = c.rv, c.match, c.limit })
			got := []string{}
			for _, o := range items(list) {
				got = append(got, o.Key().Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || list.ResourceVersion != c.at || (list.Continue != "") != c.continues {
				t.Errorf("%s: at %d (want %d), continue %q\n%s", c.name, list.ResourceVersion, c.at, list.Continue, diff)
			}
		}
		began := time.Now()
		for _, match := range []wire.Match{wire.MatchExact, wire.MatchNotOlderThan, ""} {
			_, err := s.List(t.Context(), cms,
				options(func(o *wire.ListOptions) { o.ResourceVersion, o.Match = "9999999999", match }))
			want := fmt.Sprintf("504 Timeout Timeout: Too large resource version: 9999999999, current: %d", last)
			if diff := cmp.Diff(want, status(err)); diff != "" {
				t.Errorf("%s: %s", match, diff)
			}
		}
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("three lists of the future took %v, want 9s", took)
		}
	})
}

func TestListIsOrderedByKeyBytes(t *testing.T) {
	s := serve(t)
	for _, ns := range []string{"a", "a-b", "ab"} {
		s.create(s.at("namespaces"), `{"metadata":{"name":"`+ns+`"}}`)
		s.create(s.at("configmaps", ns), configMap("x"))
	}
	if diff := cmp.Diff([]string{"a-b/x", "a/x", "ab/x"}, names(s.list(s.at("configmaps"), nil))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a/x"}, names(s.list(s.at("configmaps", "a"), nil))); diff != "" {
		t.Error(diff)
	}
}

func TestListSelectors(t *testing.T) {
	s := serve(t)
	for _, p := range []string{
		`{"metadata":{"name":"p1","labels":{"app":"x"}},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`,
		`{"metadata":{"name":"p2","labels":{"app":"y"}},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`,
		`{"metadata":{"name":"p3","labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
	} {
		s.create(s.at("pods", "default"), p)
	}
	for _, c := range []struct {
		labels, fields string
		want           []string
	}{
		{"app=x", "", []string{"default/p1", "default/p3"}},
		{"", "spec.nodeName=n1", []string{"default/p1", "default/p2"}},
		{"app=x", "spec.nodeName=n1", []string{"default/p1"}},
		{"", "metadata.name=p2", []string{"default/p2"}},
		{"", "metadata.name=p2,metadata.namespace=default", []string{"default/p2"}},
		{"", "metadata.name=p2,metadata.namespace=kube-system", []string{}},
		{"", "metadata.name!=p2", []string{"default/p1", "default/p3"}},
		{"app=y", "metadata.name=p1", []string{}},
	} {
		for _, namespace := range []string{"", "default"} {
			list := s.list(s.at("pods", namespace), func(o *wire.ListOptions) {
				var err error
				if o.Labels, err = labels.Parse(c.labels); err != nil {
					t.Fatalf("parse the selector: %v", err)
				}
				if o.Fields, err = fields.ParseSelector(c.fields); err != nil {
					t.Fatalf("parse the selector: %v", err)
				}
			})
			if diff := cmp.Diff(c.want, names(list)); diff != "" {
				t.Errorf("%q %q in %q:\n%s", c.labels, c.fields, namespace, diff)
			}
		}
	}
	_, err := s.List(t.Context(), s.at("configmaps"),
		options(func(o *wire.ListOptions) { o.Fields = fields.OneTermEqualSelector("spec.a", "1") }))
	if diff := cmp.Diff(`400 BadRequest "spec.a" is not a known field selector: only "metadata.name", "metadata.namespace"`,
		status(err)); diff != "" {
		t.Error(diff)
	}
}

// As upstream (apiserver storage/testing RunTestList, "more pages possible"): a
// full page does not look for the next object that is selected.
func TestFullPageWithASelectorHasAContinueTokenWhenObjectsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		cms := s.at("configmaps", "default")
		for name, label := range map[string]string{"a": "yes", "b": "no", "c": "yes", "d": "no"} {
			s.create(cms, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"`+name+`","labels":{"x":"`+label+`"}}}`)
		}
		s.create(s.at("configmaps", "kube-public"), configMap("a"))
		everywhere := s.at("configmaps")
		for _, c := range []struct {
			name      string
			at        kinds.Target
			labels    string
			fields    string
			limit     int64
			want      []string
			continues bool
		}{
			{"others follow", cms, "x=yes", "", 2, []string{"default/a", "default/c"}, true},
			{"the page is not full", cms, "x=yes", "", 3, []string{"default/a", "default/c"}, false},
			{"the last of the namespace", cms, "x=no", "", 2, []string{"default/b", "default/d"}, false},
			{"the last of the namespace, of all", everywhere, "x=no", "", 2, []string{"default/b", "default/d"}, true},
			{"one by its name", cms, "", "metadata.name=a", 1, []string{"default/a"}, false},
			{"a name in all namespaces", everywhere, "", "metadata.name=b", 1, []string{"default/b"}, true},
			{"a namespace of all", everywhere, "x=no", "metadata.namespace=default", 2, []string{"default/b", "default/d"}, true},
		} {
			selected := func(o *wire.ListOptions) {
				o.Labels, _ = labels.Parse(c.labels)
				o.Fields = fields.ParseSelectorOrDie(c.fields)
				o.Limit = c.limit
			}
			list := s.list(c.at, selected)
			if diff := cmp.Diff(c.want, names(list)); diff != "" || (list.Continue != "") != c.continues ||
				list.Remaining != nil {
				t.Errorf("%s: continue %q, remaining %v\n%s", c.name, list.Continue, list.Remaining, diff)
			}
			if list.Continue == "" {
				continue
			}
			rest := s.list(c.at, func(o *wire.ListOptions) { selected(o); o.Continue = list.Continue })
			if got := names(rest); len(got) != 0 || rest.Continue != "" || rest.ResourceVersion != list.ResourceVersion {
				t.Errorf("%s: the next page has %v at %d, continue %q", c.name, got, rest.ResourceVersion, rest.Continue)
			}
		}
	})
}

func TestPagesOfOneListAreOneSnapshotUnderWrites(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	want := []string{}
	for i := range 200 {
		want = append(want, s.create(cms, configMap(fmt.Sprintf("c%03d", i))).Key().String())
	}
	page := s.list(cms, func(o *wire.ListOptions) { o.Limit = 30 })
	at, got := page.ResourceVersion, names(page)
	for round := 0; page.Continue != ""; round++ {
		if page.Remaining == nil || *page.Remaining != int64(200-len(got)) {
			t.Errorf("after %d items %v remain", len(got), page.Remaining)
		}
		// More than the cache remembers, before and after where the list is.
		for i := range 30 {
			s.create(cms, configMap(fmt.Sprintf("c%03d-%d-%d", (i*7)%200, round, i)))
		}
		s.delete(s.at("configmaps", "default", fmt.Sprintf("c%03d", 199-round)))
		s.merge(s.at("configmaps", "default", fmt.Sprintf("c%03d", 150-round)), `{"data":{"changed":"yes"}}`)
		page = s.list(cms, func(o *wire.ListOptions) { o.Limit, o.Continue = 30, page.Continue })
		if page.ResourceVersion != at {
			t.Errorf("a page is at %d, the first was at %d", page.ResourceVersion, at)
		}
		for _, o := range items(page) {
			if field(t, o, "data", "changed") != nil {
				t.Errorf("%s is from after the snapshot", o.Key())
			}
		}
		got = append(got, names(page)...)
	}
	if page.Remaining != nil {
		t.Errorf("at the end %d remain", *page.Remaining)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestExpiredContinueTokenComesWithAFreshToken(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	for i := range 6 {
		s.create(cms, configMap(fmt.Sprintf("c%d", i)))
	}
	first := s.list(cms, func(o *wire.ListOptions) { o.Limit = 2 })
	s.delete(s.at("configmaps", "default", "c3"))
	last := s.create(cms, configMap("c4b")).ResourceVersion()
	if _, err := s.Compact(t.Context(), store.Compaction{UpTo: int64(last)}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	// Snapshots that were kept for the pages go with the history.
	_, err := s.List(t.Context(), cms, options(func(o *wire.ListOptions) { o.Limit, o.Continue = 2, first.Continue }))
	gone := expired(err)
	if gone == nil || gone.Kind != kube.ExpiredContinue {
		t.Fatalf("continue after compaction: %v", err)
	}
	told := wire.StatusOf(err)
	rv, start, err := wire.DecodeContinue(told.Continue)
	if err != nil || rv != -1 || start != "c1\x00" {
		t.Fatalf("token %q is %d %q %v", told.Continue, rv, start, err)
	}
	next := s.list(cms, func(o *wire.ListOptions) { o.Limit, o.Continue = 2, told.Continue })
	if diff := cmp.Diff([]string{"default/c2", "default/c4"}, names(next)); diff != "" || next.ResourceVersion != last {
		t.Errorf("at %d, want %d\n%s", next.ResourceVersion, last, diff)
	}
	rest := s.list(cms, func(o *wire.ListOptions) { o.Continue = next.Continue })
	if diff := cmp.Diff([]string{"default/c4b", "default/c5"}, names(rest)); diff != "" || rest.ResourceVersion != last {
		t.Errorf("at %d, want %d\n%s", rest.ResourceVersion, last, diff)
	}
}

func TestExactListBehindTheFloorIsExpired(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	was := s.create(cms, configMap("a")).ResourceVersion()
	now := s.merge(s.at("configmaps", "default", "a"), `{"data":{"a":"2"}}`).ResourceVersion()
	quiet := s.create(s.at("secrets", "default"), `{"metadata":{"name":"s"}}`).ResourceVersion()
	if upTo, err := s.Compact(t.Context(), store.Compaction{UpTo: int64(quiet)}); err != nil || upTo != quiet {
		t.Fatalf("compacted up to %d: %v", upTo, err)
	}
	_, err := s.List(t.Context(), cms,
		options(func(o *wire.ListOptions) { o.ResourceVersion, o.Match = was.String(), wire.MatchExact }))
	if diff := cmp.Diff("410 Expired The resourceVersion for the provided list is too old.", status(err)); diff != "" {
		t.Error(diff)
	}
	if e := expired(err); e == nil || e.Oldest != now || e.Reason != "requested" {
		t.Errorf("expired: %+v, the floor is %d", e, now)
	}
	// A quiet resource never expires.
	if got := names(s.list(s.at("secrets"), func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match = was.String(), wire.MatchExact
	})); len(got) != 0 {
		t.Errorf("secrets at %d: %v", was, got)
	}
}

func TestListItemsCanBeReadMoreThanOnce(t *testing.T) {
	s := serve(t)
	s.create(s.at("configmaps", "default"), configMap("a"))
	list := s.list(s.at("configmaps"), nil)
	s.create(s.at("configmaps", "default"), configMap("b"))
	if once, twice := names(list), names(list); !slices.Equal(once, twice) || len(once) != 1 {
		t.Errorf("%v, then %v", once, twice)
	}
}

// TestPodsAreSelectedByTheOldLabelsOfTheirFields: spec.host is spec.nodeName, and no pod has a
// value of status.podIPs, as upstream.
func TestPodsAreSelectedByTheOldLabelsOfTheirFields(t *testing.T) {
	s := serve(t)
	s.create(s.at("pods", "default"), podOnNode)
	s.create(s.at("pods", "default"), pod("q"))
	for selector, want := range map[string][]string{
		"spec.host=n": {"default/p"}, "spec.host!=n": {"default/q"}, "status.podIPs=10.0.0.1": {},
		"status.podIPs=": {"default/p", "default/q"},
	} {
		got := names(s.list(s.at("pods", "default"), func(o *wire.ListOptions) {
			o.Fields = fields.ParseSelectorOrDie(selector)
		}))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", selector, diff)
		}
	}
	w := s.watch(s.at("pods"), func(o *wire.ListOptions) { o.Fields = fields.ParseSelectorOrDie("spec.host=m") })
	s.create(s.at("pods", "default"), `{"metadata":{"name":"r"},"spec":{"nodeName":"m","containers":[{"name":"c","image":"i"}]}}`)
	if got := w.until(kube.Added, "default/r"); got.Object == nil {
		t.Errorf("the watch got %v", got)
	}
}
