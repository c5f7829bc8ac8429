package registry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestWritersReadTheirWritesAndWatchersSeeAllInOrder(t *testing.T) {
	s := serve(t)
	const writers, steps = 6, 60
	start := s.list(s.at("configmaps"), nil).ResourceVersion
	w := s.watch(s.at("configmaps"), func(o *wire.ListOptions) { o.ResourceVersion = start.String() })
	writes := make(chan int, writers)
	for n := range writers {
		go func() { writes <- writer(s, n, steps) }() // ends after its steps
	}
	want := 0
	for range writers {
		want += <-writes
	}
	mirror := map[string]*wire.Object{}
	last := start
	for range want {
		e := w.next()
		if e.ResourceVersion <= last {
			t.Fatalf("event %d after %d", e.ResourceVersion, last)
		}
		last = e.ResourceVersion
		key := e.Object.Key().String()
		if (e.Type == kube.Added) != (mirror[key] == nil) {
			t.Fatalf("%s of %s, which was there: %t", e.Type, key, mirror[key] != nil)
		}
		if e.Type == kube.Deleted {
			delete(mirror, key)
		} else {
			mirror[key] = e.Object
		}
	}
	list := s.list(s.at("configmaps"), nil)
	got := 0
	for _, o := range items(list) {
		got++
		seen := mirror[o.Key().String()]
		if seen == nil {
			t.Errorf("the watch has not seen %s", o.JSON())
		} else if diff := cmp.Diff(string(o.JSON()), string(seen.JSON())); diff != "" {
			t.Errorf("-list +watch:\n%s", diff)
		}
	}
	if got != len(mirror) || list.ResourceVersion != last {
		t.Errorf("%d objects at %d in the list, %d at %d by the watch", got, list.ResourceVersion, len(mirror), last)
	}
}

// writer creates, changes and deletes objects of its own, and returns how many
// writes it did. After each it reads in every way, and must find it.
func writer(s *server, n, steps int) (writes int) {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	there := map[string]bool{}
	for i := range steps {
		name := fmt.Sprintf("w%d-%d", n, random.IntN(8))
		at := s.at("configmaps", "default", name)
		var want kube.ResourceVersion
		switch {
		case !there[name]:
			want = s.create(s.at("configmaps", "default"), configMap(name)).ResourceVersion()
		case random.IntN(3) == 0:
			s.delete(at)
		default:
			want = s.merge(at, fmt.Sprintf(`{"data":{"step":"%d"}}`, i)).ResourceVersion()
		}
		writes++
		there[name] = want != 0
		for _, rv := range []string{"", "0"} {
			o, err := s.Get(s.t.Context(), at, rv)
			switch {
			case want == 0 && wire.StatusOf(err).Code != 404:
				s.t.Errorf("%s was deleted and is still read: %v", name, err)
			case want != 0 && err != nil:
				s.t.Errorf("%s was written and is not read: %v", name, err)
			case want != 0 && o.ResourceVersion() != want:
				s.t.Errorf("%s was written at %d and is read at %d", name, want, o.ResourceVersion())
			}
		}
	}
	return writes
}

// failing is a store whose commits fail with err.
type failing struct {
	store.Store
	mu  sync.Mutex
	err error // nil: they do not
}

func (f *failing) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failing) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return store.Committed{}, err
	}
	return f.Store.Commit(ctx, t)
}

func TestWritesFailAndReadsContinueOnAFailingDisk(t *testing.T) {
	disk := &failing{}
	s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { disk.Store = below; return disk })
	was := s.create(s.at("configmaps", "default"), configMap("a"))
	at := s.at("configmaps", "default", "a")
	full := errors.New("no space left on device")
	for _, c := range []struct {
		err  error
		want string
	}{
		{&store.UnavailableError{Cause: full}, "503 ServiceUnavailable no write is accepted for now: no space left on device"},
		{
			&store.PoisonedError{Cause: full},
			"500 InternalError Internal error occurred: the disk may have lost data, so no write is accepted until a restart: " +
				"no space left on device",
		},
		{
			&store.TooLargeError{What: "value", Bytes: 9 << 20, Limit: 8 << 20},
			"413 RequestEntityTooLarge Request entity too large: limit is 8388608",
		},
		{store.ErrClosed, "503 ServiceUnavailable the server is shutting down: its store is closed"},
	} {
		disk.fail(c.err)
		for name, err := range map[string]error{
			"create": second(s.Create(t.Context(), s.at("configmaps", "default"), []byte(configMap("b")),
				metav1.CreateOptions{})),
			"update": second(s.Update(t.Context(), at, []byte(`{"metadata":{"name":"a"}}`), metav1.UpdateOptions{})),
			"patch": second(s.Patch(t.Context(), at, wire.Patch{Type: types.MergePatchType, Body: []byte(`{"data":{"x":"y"}}`)},
				metav1.PatchOptions{})),
			"delete": second(s.Delete(t.Context(), at, metav1.DeleteOptions{})),
		} {
			if diff := cmp.Diff(c.want, status(err)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		if is := s.get(at); is != was {
			t.Errorf("after %v the object is %s", c.err, is.JSON())
		}
	}
	disk.fail(nil)
	s.create(s.at("configmaps", "default"), configMap("b"))
}

func TestConditionalUpdateConflictsAndUnconditionalUpdateRetries(t *testing.T) {
	meddler := &meddling{}
	s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { meddler.Store = below; return meddler })
	was := s.create(s.at("configmaps", "default"), configMap("a"))
	at := s.at("configmaps", "default", "a")
	other := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"other":"%d"}}`
	meddler.before("configmaps/default/a", fmt.Sprintf(other, 1))
	_, err := s.Update(t.Context(), at, []byte(`{"metadata":{"name":"a"`+rvOf(was)+`},"data":{"mine":"1"}}`),
		metav1.UpdateOptions{})
	if wire.StatusOf(err).Reason != metav1.StatusReasonConflict {
		t.Errorf("conditional: %v", err)
	}
	meddler.before("configmaps/default/a", fmt.Sprintf(other, 2))
	if diff := cmp.Diff(map[string]any{"other": "2", "mine": "2"},
		field(t, s.merge(at, `{"data":{"mine":"2"}}`), "data")); diff != "" {
		t.Error(diff)
	}
	meddler.before("configmaps/default/a", fmt.Sprintf(other, 3))
	if out := s.delete(at); out.Status == nil {
		t.Errorf("delete: %+v", out)
	}
}

// meddling writes something else just before the next commit.
type meddling struct {
	store.Store
	mu    sync.Mutex
	key   string
	value string
}

func (m *meddling) before(key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key, m.value = key, value
}

func (m *meddling) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	m.mu.Lock()
	key, value := m.key, m.value
	m.key = ""
	m.mu.Unlock()
	if key != "" {
		other := store.Txn{Key: key, Value: []byte(value), ExpectedModRevision: t.ExpectedModRevision}
		if _, err := m.Store.Commit(ctx, other); err != nil {
			return store.Committed{}, err
		}
	}
	return m.Store.Commit(ctx, t)
}

func TestCorruptValueStopsTheRegistry(t *testing.T) {
	log := openLog(t)
	s := &server{t: t, log: log, live: kinds.NewLive(builtin.Catalog())}
	s.Registry = registry.New(registry.Config{Store: log, Live: s.live})
	if _, err := s.List(t.Context(), s.at("configmaps"), options(nil)); wire.StatusOf(err).Code != 429 {
		t.Errorf("before Run: %v", err)
	}
	if s.Ready() == nil {
		t.Error("ready before Run")
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }() // ends with the corrupt value
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
	if _, err := log.Commit(t.Context(), store.Txn{Key: "configmaps/default/bad", Value: []byte(`{"metadata":`)}); err != nil {
		t.Fatalf("commit to the log: %v", err)
	}
	err := <-ended
	if err == nil || !strings.Contains(err.Error(), `"configmaps/default/bad"`) || s.Ready() == nil {
		t.Errorf("run: %v; ready: %v", err, s.Ready())
	}
	// A write is stored but cannot become visible: it must not hang.
	if _, err := s.Create(t.Context(), s.at("secrets", "default"), []byte(`{"metadata":{"name":"s"}}`),
		metav1.CreateOptions{}); wire.StatusOf(err).Code != 500 {
		t.Errorf("create: %v", err)
	}
	again := registry.New(registry.Config{Store: log, Live: kinds.NewLive(builtin.Catalog())})
	if err := again.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "configmaps/default/bad") {
		t.Errorf("a second start: %v", err)
	}
	if err := again.WaitReady(t.Context()); err == nil {
		t.Error("ready with a corrupt value")
	}
}

func TestCompactRefusals(t *testing.T) {
	s := serve(t)
	for want, c := range map[int32]store.Compaction{400: {}, 504: {UpTo: 9_999_999_999}} {
		if _, err := s.Compact(t.Context(), c); wire.StatusOf(err).Code != want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	s := serve(b)
	at := s.at("configmaps", "default")
	n := 0
	for b.Loop() {
		s.create(at, configMap(fmt.Sprintf("c%d", n)))
		n++
	}
}

func BenchmarkMergePatch(b *testing.B) {
	s := serve(b)
	s.create(s.at("configmaps", "default"), configMap("a"))
	at := s.at("configmaps", "default", "a")
	n := 0
	for b.Loop() {
		s.merge(at, fmt.Sprintf(`{"data":{"a":"%d"}}`, n))
		n++
	}
}
