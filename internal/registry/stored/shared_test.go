package stored

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/storetest"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// pods is a resource of a store to which others write.
func pods(t *testing.T) (*storetest.List, *Resource) {
	t.Helper()
	list := storetest.NewList()
	return list, NewSource(list).Resource(kinds.GroupResource{Resource: "pods"}, nil)
}

func put(name, label string) store.Txn {
	value := fmt.Sprintf(`{"metadata":{"namespace":"ns","name":%q,"labels":{"v":%q}}}`, name, label)
	return store.Txn{Key: "pods/ns/" + name, Value: []byte(value)}
}

func deletion(name string) store.Txn { return store.Txn{Key: "pods/ns/" + name, Delete: true} }

// brief is an entry as "104 a=2 after 1" or "DELETED 101 shows 100 a after 1".
func brief(e *watchcache.Entry) string {
	line := fmt.Sprintf("%s %s=%s", e.RV, e.Object.Key().Name, e.Object.Labels()["v"])
	if e.Deleted {
		line = fmt.Sprintf("%s deletes %s, shows %s", e.RV, e.Object.Key().Name, e.Object.ResourceVersion())
	}
	if e.Previous != nil {
		line += " after " + e.Previous.Labels()["v"]
	}
	if e.Hole != nil {
		line += fmt.Sprintf(" over %d-%d", e.Hole.From, e.Hole.To)
	}
	return line
}

// pages reads history in pages of one entry, twice, so that the second time all is known.
func pages(t *testing.T, r *Resource, after, upTo kube.ResourceVersion) [][]string {
	t.Helper()
	var first [][]string
	for round := range 2 {
		var all [][]string
		for pos := after; pos < upTo; {
			entries, through, err := r.Entries(t.Context(), watchcache.Range{
				After: pos, Since: after, UpTo: upTo, MaxEntries: 1, Selection: &watchcache.Selection{Previous: true},
			})
			if err != nil || through <= pos {
				t.Fatalf("read after %d: through %d, %v", pos, through, err)
			}
			var page []string
			for _, e := range entries {
				page = append(page, brief(e))
			}
			all, pos = append(all, page), through
		}
		if round == 0 {
			first = all
		} else if diff := cmp.Diff(first, all); diff != "" {
			t.Errorf("the second time (-first +second):\n%s", diff)
		}
	}
	return first
}

func TestAPageOfHistoryHasAllChangesOfARevision(t *testing.T) {
	list, r := pods(t)
	list.Together(put("a", "1"), put("b", "1"), put("c", "1"))
	list.Together(put("a", "2"), deletion("b"), put("c", "2"), put("d", "1"))
	list.Together(deletion("a"), deletion("d"))
	list.Together(put("a", "3"))
	list.Together(deletion("c"))
	want := [][]string{
		{"1 a=1", "1 b=1", "1 c=1"},
		{"2 deletes b, shows 1 after 1", "2 a=2 after 1", "2 c=2 after 1", "2 d=1"},
		{"3 deletes a, shows 2 after 2", "3 deletes d, shows 2 after 1"},
		{"4 a=3"},
		{"5 deletes c, shows 5 after 2"},
	}
	if diff := cmp.Diff(want, pages(t, r, 0, 5)); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func TestPagesOfADifferenceSayWhoseTheyAre(t *testing.T) {
	list, r := pods(t)
	list.Together(put("a", "1"), put("b", "1"), put("c", "1"))
	list.Miss(func() { // 2 to 6
		list.Together(put("a", "2"), deletion("b"))
		list.Together(deletion("c"))
		list.Together(put("c", "new"), put("d", "1"))
		list.Together(put("a", "3"))
	})
	list.Together(put("a", "4"))
	want := [][]string{
		{"2 deletes b, shows 1 after 1 over 1-6", "2 deletes c, shows 1 after 1 over 1-6"},
		{"4 c=new over 1-6", "4 d=1 over 1-6"},
		{"5 a=3 after 1 over 1-6"},
		{"7 a=4 after 3"},
	}
	if diff := cmp.Diff(want, pages(t, r, 1, 7)); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	now := watchcache.New(watchcache.Config{Clock: watchcache.NewClock(7)}).Snapshot()
	for rv := kube.ResourceVersion(1); rv <= 7; rv++ {
		err := r.Check(t.Context(), rv, kube.ExpiredWatch)
		_, _, read := r.Entries(t.Context(), watchcache.Range{After: rv, UpTo: 7})
		past := error(nil)
		for _, past = range r.Past(rv, now, 0).Scan(t.Context(), "", watchcache.Selection{}) {
			if past != nil {
				break
			}
		}
		for name, err := range map[string]error{"check": err, "read": read, "list": past} {
			e, is := err.(*kube.ExpiredError) //nolint:errorlint // it is what clients get
			inside := rv > 1 && rv < 6
			if is != inside || is && (e.Reason != kube.ReasonUnseen || e.Oldest != 6 || e.Requested != rv) || !is && err != nil {
				t.Errorf("%s at %d: %v", name, rv, err)
			}
		}
	}
}
