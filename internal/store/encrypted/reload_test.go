package encrypted_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// reloads returns how many reloads had a result.
func reloads(tb testing.TB, s *encrypted.Store, result string) int {
	tb.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		tb.Fatalf("gather the metrics: %v", err)
	}
	for _, family := range families {
		if family.GetName() != "apiserver_encryption_config_controller_automatic_reloads_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "status" && label.GetValue() == result {
					return int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return 0
}

func TestReloadTakesEffectForTheNextWrite(t *testing.T) {
	f := inMemory(t, configuration("secrets", identity))
	rv := put(t, f, "secrets/default/a", "one")
	if stale, err := f.Stale(t.Context(), "secrets/default/a", rv); err != nil || stale {
		t.Fatalf("before the change: stale %v, %v", stale, err)
	}
	for _, step := range []struct{ content, prefix string }{
		{configuration("secrets", provider("secretbox", "key1"), identity), "k8s:enc:secretbox:v1:key1:"},
		{configuration("secrets", provider("aesgcm", "key2"), provider("secretbox", "key1")), "k8s:enc:aesgcm:v1:key2:"},
		{configuration("secrets", identity, provider("aesgcm", "key2")), ""},
	} {
		if err := f.reload(t, step.content); err != nil {
			t.Fatalf("reload: %v", err)
		}
		if got := get(t, f, "secrets/default/a"); got != "one" {
			t.Fatalf("the former value is read as %q", got)
		}
		if stale, err := f.Stale(t.Context(), "secrets/default/a", rv); err != nil || !stale {
			t.Errorf("after the change to %q: stale %v, %v", step.prefix, stale, err)
		}
		rv = put(t, f, "secrets/default/a", "one")
		if got := encrypted.Encryption([]byte(get(t, f.log, "secrets/default/a"))); got != step.prefix {
			t.Errorf("written with %q, want %q", got, step.prefix)
		}
		if stale, err := f.Stale(t.Context(), "secrets/default/a", rv); err != nil || stale {
			t.Errorf("after writing with %q: stale %v, %v", step.prefix, stale, err)
		}
	}
	if n := reloads(t, f.Store, "success"); n != 3 {
		t.Errorf("%d reloads are counted, want 3", n)
	}
}

// TestGenerationChangesWithTheKeys so that what was read with former ones is not taken for readable.
func TestGenerationChangesWithTheKeys(t *testing.T) {
	f := inMemory(t, configuration("secrets", provider("secretbox", "key1"), identity))
	generation := func(resource string) uint64 {
		put(t, f, resource+"/default/a", "one")
		page, err := f.Read(t.Context(), store.Query{
			Start: resource + "/", End: resource + "0", Want: func(string, int64) bool { return false },
		})
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		return page.Generation
	}
	first := generation("secrets")
	if first == 0 || generation("pods") != 0 {
		t.Errorf("secrets are read by generation %d, pods by %d", first, generation("pods"))
	}
	if err := f.reload(t, configuration("configmaps", provider("aesgcm", "key2"), identity)); err == nil {
		t.Error("a configuration that cannot read all is in force")
	}
	if again := generation("secrets"); again != first {
		t.Errorf("after a reload that was refused it is %d, before %d", again, first)
	}
	if err := f.reload(t, configuration("secrets", identity, provider("secretbox", "key1"))); err != nil {
		t.Fatalf("reload: %v", err)
	}
	if second := generation("secrets"); second == 0 || second == first {
		t.Errorf("the second generation is %d, the first %d", second, first)
	}
}

func TestFileThatCannotBeUsedIsNotPutInForce(t *testing.T) {
	good := configuration("secrets", provider("secretbox", "key1"))
	f := inMemory(t, good)
	put(t, f, "secrets/default/a", "one")
	put(t, f, "secrets/default/b", "two")
	for i, c := range []struct{ content, want string }{
		{"", "is empty"},
		{"nonsense", "decoding"},
		{strings.Replace(good, "secret:", "secrte:", 1), "secrte"},
		{configuration("secrets", provider("secretbox", "key2")), `2 stored values cannot be decrypted with it`},
		{configuration("secrets", provider("secretbox", "key2")), `"secrets/default/a"`},
		{configuration("configmaps", provider("secretbox", "key1")), "k8s:enc:secretbox:v1:key1:"},
		{configuration("secrets", "  - kms: {apiVersion: v1, name: old, endpoint: 'unix:///nowhere.sock'}\n"), "v1"},
	} {
		err := f.reload(t, c.content)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("file %d: error %v, want %q in it", i, err, c.want)
		}
		if n := reloads(t, f.Store, "failure"); n != i+1 {
			t.Errorf("file %d: %d failures are counted", i, n)
		}
		put(t, f, "secrets/default/a", fmt.Sprint(i))
		if got := get(t, f, "secrets/default/a"); got != fmt.Sprint(i) {
			t.Errorf("file %d: then %q is read", i, got)
		}
	}
	if err := f.reload(t, good); err != nil {
		t.Errorf("the former file: %v", err)
	}
}

// TestWritesDuringRotationAreReadable rotates keys, as its documentation says, while values are
// written and rewritten.
func TestWritesDuringRotationAreReadable(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	f := open(t, log, configuration("secrets", provider("secretbox", "key0")))
	const writers, rotations = 4, 12
	held, err := f.Changes(t.Context(), store.From{Hold: true})
	if err != nil {
		t.Fatalf("ask for changes: %v", err)
	}
	defer func() { _ = held.Close() }()
	ctx, stop := t.Context(), make(chan struct{})
	var wg sync.WaitGroup
	last := make([]string, writers)
	for w := range writers {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				last[w] = fmt.Sprintf("%d of %d", i, w)
				if err := overwrite(ctx, f, fmt.Sprintf("secrets/default/%d", w), last[w]); err != nil {
					t.Errorf("overwrite: %v", err)
					return
				}
			}
		})
	}
	for i := range rotations {
		from, to := fmt.Sprintf("key%d", i), fmt.Sprintf("key%d", i+1)
		for _, keys := range [][]string{{from, to}, {to, from}} {
			if err := f.reload(t, configuration("secrets", provider("secretbox", keys...))); err != nil {
				t.Fatalf("reload: %v", err)
			}
		}
		// Rewrite what is left, then remove the key.
		for w := range writers {
			rewrite(t, f, fmt.Sprintf("secrets/default/%d", w))
		}
		if err := f.reload(t, configuration("secrets", provider("secretbox", to))); err != nil {
			t.Fatalf("reload: %v", err)
		}
	}
	close(stop)
	wg.Wait()
	final := open(t, log, configuration("secrets", provider("secretbox", fmt.Sprintf("key%d", rotations))))
	for w := range writers {
		if got := get(t, final, fmt.Sprintf("secrets/default/%d", w)); got != last[w] {
			t.Errorf("writer %d wrote %q, and %q is there", w, last[w], got)
		}
	}
}

// overwrite writes a value, again after conflicts.
func overwrite(ctx context.Context, s store.Store, key, v string) error {
	for expected := int64(0); ; {
		_, err := s.Commit(ctx, store.Txn{Key: key, Value: []byte(v), ExpectedModRevision: expected})
		conflict, is := errors.AsType[*store.ConflictError](err)
		if !is {
			return err
		}
		expected = 0
		if conflict.Current != nil {
			expected = conflict.Current.ModRevision
		}
	}
}

// rewrite writes a value again unless it is not stale, whatever others do.
func rewrite(t *testing.T, s *fixture, key string) {
	t.Helper()
	for {
		page, err := s.Read(t.Context(), store.Query{Start: key})
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if len(page.Records) == 0 {
			return
		}
		r := page.Records[0]
		if stale, err := s.Stale(t.Context(), key, r.ModRevision); err == nil && !stale {
			return
		}
		if _, err := s.Commit(t.Context(), store.Txn{Key: key, Value: r.Value, ExpectedModRevision: r.ModRevision}); err == nil {
			return
		}
	}
}

func TestRunFollowsTheFile(t *testing.T) {
	f := inMemory(t, configuration("secrets", identity))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }() // ends with ctx
	writeFile(t, f.file, configuration("secrets", provider("secretbox", "key1"), identity))
	for i := 0; ; i++ {
		put(t, f, "secrets/default/a", fmt.Sprint(i))
		if encrypted.Encryption([]byte(get(t, f.log, "secrets/default/a"))) != "" {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
}

// The values are of all stores of the process.
func TestTransformationsAreCountedByResourceAsUpstream(t *testing.T) {
	f := open(t, openLog(t, revlog.Options{Memory: true}),
		configuration("leases.coordination.k8s.io", provider("secretbox", "key1")))
	put(t, f, "leases.coordination.k8s.io/a/b", "value")
	if got := get(t, f, "leases.coordination.k8s.io/a/b"); got != "value" {
		t.Fatalf("got %q", got)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gather the metrics: %v", err)
	}
	counted := map[string]bool{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			text := family.GetName()
			for _, l := range m.GetLabel() {
				text += " " + l.GetValue()
			}
			counted[text] = m.GetCounter().GetValue() > 0 || m.GetHistogram().GetSampleCount() > 0
		}
	}
	for _, want := range []string{
		"apiserver_storage_transformation_operations_total leases.coordination.k8s.io OK from_storage k8s:enc:secretbox:v1:",
		"apiserver_storage_transformation_operations_total leases.coordination.k8s.io OK to_storage k8s:enc:secretbox:v1:",
		"apiserver_storage_transformation_duration_seconds to_storage k8s:enc:secretbox:v1:",
	} {
		if !counted[want] {
			t.Errorf("%s is not counted: %v", want, counted)
		}
	}
}
