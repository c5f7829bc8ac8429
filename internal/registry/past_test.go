package registry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// past is what a resource was at each resourceVersion, as a test has seen it.
type past map[kube.ResourceVersion][]*wire.Object

// live makes random changes to ConfigMaps in three namespaces, more than the cache
// remembers, and returns every state that there was.
func live(t *testing.T, s *server, r *rand.Rand, changes int) past {
	t.Helper()
	for _, ns := range []string{"a", "a-b"} {
		s.create(s.at("namespaces"), `{"metadata":{"name":"`+ns+`"}}`)
	}
	states := past{}
	there := map[string]bool{}
	for i := range changes {
		ns, name := []string{"a", "a-b", "default"}[r.IntN(3)], fmt.Sprintf("c%02d", r.IntN(40))
		at := s.at("configmaps", ns, name)
		switch key := ns + "/" + name; {
		case !there[key]:
			s.create(s.at("configmaps", ns), fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":"a%d"}}}`, name, r.IntN(3)))
			there[key] = true
		case r.IntN(3) == 0:
			s.delete(at)
			there[key] = false
		default:
			s.merge(at, fmt.Sprintf(`{"metadata":{"labels":{"app":"a%d"}},"data":{"step":"%d"}}`, r.IntN(3), i))
		}
		list := s.list(s.at("configmaps"), nil)
		states[list.ResourceVersion] = items(list)
	}
	return states
}

// question is a list of the past.
type question struct {
	namespace, labels, name string
	limit                   int64
}

func (q question) selects(o *wire.Object) bool {
	sel, err := labels.Parse(q.labels)
	return err == nil && sel.Matches(o.Labels()) &&
		(q.namespace == "" || o.Key().Namespace == q.namespace) && (q.name == "" || o.Key().Name == q.name)
}

// pages asks page by page and checks what every page says of the rest.
func (q question) pages(s *server, rv kube.ResourceVersion, truth []*wire.Object) (got []*wire.Object) {
	s.t.Helper()
	token := ""
	for {
		list := s.list(s.at("configmaps", q.namespace), func(o *wire.ListOptions) {
			if o.Limit, o.Continue = q.limit, token; token == "" {
				o.ResourceVersion, o.Match = rv.String(), wire.MatchExact
			}
			o.Labels, _ = labels.Parse(q.labels)
			if q.name != "" {
				o.Fields = fields.OneTermEqualSelector("metadata.name", q.name)
			}
		})
		page := items(list)
		got = append(got, page...)
		if versions := list.Versions; versions != nil && !slices.Equal(versions, versionsOf(page)) {
			s.t.Errorf("%+v at %d: objects of the versions %v, known as %v", q, rv, versionsOf(page), versions)
		}
		rest := 0
		for _, o := range truth {
			if len(page) > 0 && (q.namespace == "" || o.Key().Namespace == q.namespace) &&
				o.Key().String() > page[len(page)-1].Key().String() {
				rest++
			}
		}
		full := q.limit > 0 && int64(len(page)) == q.limit && (q.name == "" || q.namespace == "")
		counted := full && rest > 0 && q.labels == "" && q.name == ""
		if list.ResourceVersion != rv || (list.Continue != "") != (full && rest > 0) || (list.Remaining != nil) != counted ||
			counted && *list.Remaining != int64(rest) {
			s.t.Errorf("%+v at %d: %d objects at %d, continue %q, remaining %v; %d follow",
				q, rv, len(page), list.ResourceVersion, list.Continue, list.Remaining, rest)
		}
		if token = list.Continue; token == "" {
			return got
		}
	}
}

func versionsOf(objects []*wire.Object) (versions []uint64) {
	for _, o := range objects {
		versions = append(versions, o.Key().Version(o.ResourceVersion()))
	}
	return versions
}

// Each state is read from memory or from the store, whole and in pages, and must be
// what it was.
func TestListAtAPastRevisionReturnsThatState(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	s := serve(t)
	states := live(t, s, r, 300)
	behind := s.Stats()["configmaps"].Gone
	old := 0
	for rv, truth := range states {
		if rv < behind {
			old++
		}
		for _, q := range []question{
			{},
			{limit: 1 + r.Int64N(20)},
			{namespace: "a", limit: 1 + r.Int64N(9)},
			{namespace: "a-b"},
			{labels: "app=a1"},
			{labels: "app=a1", limit: 1 + r.Int64N(5)},
			{namespace: "default", labels: "app!=a2", limit: 3},
			{name: "c07"},
			{name: "c07", namespace: "a", limit: 1},
			{name: "c07", limit: 1},
			{namespace: "nowhere", limit: 1},
		} {
			want := []string{}
			for _, o := range truth {
				if q.selects(o) {
					want = append(want, string(o.JSON()))
				}
			}
			for n := range 2 { // the second time more is known
				got := []string{}
				for _, o := range q.pages(s, rv, truth) {
					got = append(got, string(o.JSON()))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%+v at %d, time %d (-want +got):\n%s", q, rv, n, diff)
				}
			}
		}
	}
	if old < 100 {
		t.Errorf("only %d states were behind the window", old)
	}
	if kept := s.Stats()["configmaps"].Kept; kept > 4 {
		t.Errorf("%d snapshots are kept", kept)
	}
}

func TestPastListSharesUnchangedObjectsWithTheCache(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	same := s.create(cms, configMap("same"))
	was := s.create(cms, configMap("hot"))
	outrun(s)
	list := s.list(cms, func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match = was.ResourceVersion().String(), wire.MatchExact
	})
	got := items(list)
	if len(got) != 2 || got[1] != same || got[0] == was || string(got[0].JSON()) != string(was.JSON()) {
		t.Errorf("the list of the past has %d objects; shared %t", len(got), len(got) == 2 && got[1] == same)
	}
}

func TestAPageOfThePastIsReadOnce(t *testing.T) {
	counted := &reading{}
	s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { counted.Store = below; return counted })
	cms := s.at("configmaps", "default")
	// More bytes than the store returns at once, and than are held of a list of now.
	const objects, size, limit = 300, 12 << 10, 250
	var rv kube.ResourceVersion
	for i := range objects {
		body := fmt.Sprintf(`{"metadata":{"name":"c%03d"},"data":{"a":%q}}`, i, strings.Repeat("x", size))
		rv = s.create(cms, body).ResourceVersion()
	}
	for i := range objects {
		s.merge(s.at("configmaps", "default", fmt.Sprintf("c%03d", i)), `{"data":{"changed":"yes"}}`)
	}
	counted.values.Store(0)
	list := s.list(cms, func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match, o.Limit = rv.String(), wire.MatchExact, limit
	})
	for i, o := range items(list) {
		if want := fmt.Sprintf("c%03d", i); o.Key().Name != want || strings.Contains(string(o.JSON()), "changed") {
			t.Errorf("object %d is %s", i, o.JSON())
		}
	}
	if n, read := len(items(list)), counted.values.Load(); n != limit || read != limit {
		t.Errorf("%d values were read for %d objects, want %d", read, n, limit)
	}
}

// TestSelectorsOfThePastReadNoOtherValuesAgain also by another selector, and from another page on.
func TestSelectorsOfThePastReadNoOtherValuesAgain(t *testing.T) {
	counted := &reading{}
	s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { counted.Store = below; return counted })
	cms := s.at("configmaps", "default")
	const objects = 700 // more than one read of keys
	var rv kube.ResourceVersion
	for i := range objects {
		rv = s.create(cms, fmt.Sprintf(`{"metadata":{"name":"c%03d","labels":{"seventh":"%t","tenth":"%t"}}}`,
			i, i%7 == 0, i%10 == 0)).ResourceVersion()
	}
	for i := range objects {
		s.merge(s.at("configmaps", "default", fmt.Sprintf("c%03d", i)), `{"metadata":{"labels":{"seventh":null}}}`)
	}
	for _, c := range []struct {
		labels, fields    string
		limit, want, read int64
	}{
		{"seventh=true", "", 0, 100, objects},
		{"seventh=true", "", 0, 100, 100},
		{"tenth=true", "", 1000, 70, 70},
		{"tenth=true", "metadata.name!=c000", 1000, 69, 69},
		{"tenth=no", "", 0, 0, 0},
	} {
		counted.values.Store(0)
		list := s.list(cms, func(o *wire.ListOptions) {
			o.ResourceVersion, o.Match, o.Limit = rv.String(), wire.MatchExact, c.limit
			o.Labels, _ = labels.Parse(c.labels)
			o.Fields, _ = fields.ParseSelector(c.fields)
		})
		known := list.Versions != nil
		got := items(list)
		if n, read := int64(len(got)), counted.values.Load(); n != c.want || read != c.read || known != (c.read == c.want) {
			t.Errorf("%+v: %d objects, %d values were read, known before: %t", c, n, read, known)
		}
	}
}

// outrun moves the memory window beyond everything before.
func outrun(s *server) {
	s.t.Helper()
	for i := range 200 {
		s.merge(s.at("configmaps", "default", "hot"), fmt.Sprintf(`{"data":{"a":"%d"}}`, i+5))
	}
}

// reading counts what is read of a store.
type reading struct {
	store.Store
	values atomic.Int64 // records with their values
	counts atomic.Int64 // walks over all keys
}

func (r *reading) Read(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := r.Store.Read(ctx, q)
	for _, record := range page.Records {
		if record.Value != nil {
			r.values.Add(1)
		}
	}
	if q.Count && page.More {
		r.counts.Add(1)
	}
	return page, err
}

// paginate reads a list behind the window page by page.
func paginate(s *server, t kinds.Target, rv kube.ResourceVersion, limit int64) int {
	count, token := 0, ""
	for {
		list := s.list(t, func(o *wire.ListOptions) {
			if o.Limit, o.Continue = limit, token; token == "" {
				o.ResourceVersion, o.Match = rv.String(), wire.MatchExact
			}
		})
		count += len(items(list))
		if token = list.Continue; token == "" {
			return count
		}
	}
}

func TestConcurrentPaginatorsBehindTheWindowAreIndependent(t *testing.T) {
	counted := &reading{}
	s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { counted.Store = below; return counted })
	cms := s.at("configmaps", "default")
	const objects, paginators, limit = 200, 12, 20
	s.create(cms, configMap("hot"))
	var rv kube.ResourceVersion
	for i := range objects - 1 {
		rv = s.create(cms, configMap(fmt.Sprintf("c%03d", i))).ResourceVersion()
	}
	for i := range objects - 1 { // every object is another one by now
		s.merge(s.at("configmaps", "default", fmt.Sprintf("c%03d", i)), `{"data":{"changed":"yes"}}`)
	}
	outrun(s)
	counted.values.Store(0)
	counted.counts.Store(0)
	var wg sync.WaitGroup
	for i := range paginators {
		wg.Go(func() {
			if n := paginate(s, cms, rv-kube.ResourceVersion(i), limit); n != objects-i {
				t.Errorf("paginator %d has seen %d objects, want %d", i, n, objects-i)
			}
		})
	}
	wg.Wait()
	if read := counted.values.Load(); read > paginators*objects {
		t.Errorf("%d values were read for %d lists of %d", read, paginators, objects)
	}
	if walks := counted.counts.Load(); walks > paginators {
		t.Errorf("all keys were walked over %d times for %d lists", walks, paginators)
	}
}

func TestListsOfThePastNeedMemoryForAPageOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := serve(t)
	cms := s.at("configmaps", "default")
	const objects, size, readers = 1000, 20 << 10, 16
	s.create(cms, configMap("hot"))
	var rv kube.ResourceVersion
	payload := strings.Repeat("x", size)
	for i := range objects {
		rv = s.create(cms, fmt.Sprintf(`{"metadata":{"name":"c%04d"},"data":{"a":%q}}`, i, payload)).ResourceVersion()
	}
	for i := range objects {
		s.merge(s.at("configmaps", "default", fmt.Sprintf("c%04d", i)), `{"data":{"b":"1"}}`)
	}
	outrun(s)
	for _, c := range []struct {
		name  string
		limit int64
		most  uint64 // MiB that are allocated for all readers together
	}{
		{"one object", 1, 32},
		// 10 MiB, read twice: values, the buffers that they are read into, objects.
		{"a page that is larger than what is held of it", 500, 16 * 32},
	} {
		before := allocated()
		var wg sync.WaitGroup
		for i := range readers {
			wg.Go(func() {
				list := s.list(cms, func(o *wire.ListOptions) {
					o.ResourceVersion, o.Match, o.Limit = (rv - kube.ResourceVersion(i)).String(), wire.MatchExact, c.limit
				})
				n := int64(0)
				for _, err := range list.Items {
					if n++; err != nil {
						t.Error(err)
					}
				}
				if n != c.limit {
					t.Errorf("%s: %d objects", c.name, n)
				}
			})
		}
		wg.Wait()
		if more := (allocated() - before) >> 20; more > c.most {
			t.Errorf("%s: %d MiB were allocated for %d lists of %d MiB, at most %d are needed",
				c.name, more, readers, objects*size>>20, c.most)
		}
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestListThatIsCompactedWhileItIsReadEndsWithAnError(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	s.create(cms, configMap("hot"))
	var rv kube.ResourceVersion
	for i := range 700 { // more than a page of the store
		rv = s.create(cms, configMap(fmt.Sprintf("c%03d", i))).ResourceVersion()
	}
	outrun(s)
	list := s.list(cms, func(o *wire.ListOptions) { o.ResourceVersion, o.Match = rv.String(), wire.MatchExact })
	n, now := 0, int64(s.list(cms, nil).ResourceVersion)
	var failed error
	for _, err := range list.Items {
		if failed = err; err != nil {
			break
		}
		if n++; n == 5 {
			if _, err := s.Compact(t.Context(), store.Compaction{UpTo: now}); err != nil {
				t.Fatalf("compact: %v", err)
			}
		}
	}
	if e := expired(failed); e == nil || e.Kind != kube.ExpiredList || n >= 701 {
		t.Errorf("after %d of 701 objects: %v", n, failed)
	}
}

func TestDeleteCollectionAtAPastRevisionDeletesThatState(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	s.create(cms, configMap("hot"))
	rv := s.create(cms, configMap("a")).ResourceVersion()
	s.create(cms, configMap("b"))
	outrun(s)
	if _, err := s.DeleteCollection(t.Context(), cms, metav1.DeleteOptions{},
		options(func(o *wire.ListOptions) { o.ResourceVersion, o.Match = rv.String(), wire.MatchExact })); err != nil {
		t.Fatalf("delete the collection: %v", err)
	}
	if got := names(s.list(cms, nil)); !slices.Equal(got, []string{"default/b"}) {
		t.Errorf("what is left: %v", got)
	}
}
