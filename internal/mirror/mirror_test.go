package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a mirror that runs until the returned function is called.
func open(t *testing.T, o mirror.Options) (*mirror.Mirror, func()) {
	t.Helper()
	m, err := mirror.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open the mirror: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }() // it ends with the returned function
	return m, func() {
		stop()
		if err := errors.Join(<-ended, m.Close()); err != nil {
			t.Errorf("wait for the end and close: %v", err)
		}
	}
}

func put(name string, rv kube.ResourceVersion) mirror.Change {
	return mirror.Change{Key: wire.Key{Name: name}, RV: rv, Object: fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name)}
}

func TestResourceVersionsAreFoundAgainAfterARestart(t *testing.T) {
	dir := t.TempDir()
	check := func(c *mirror.Collection) {
		t.Helper()
		for _, want := range []struct {
			rv    kube.ResourceVersion
			shown kube.ResourceVersion
		}{{100, 100}, {104, 100}, {105, 105}, {106, 105}, {107, 107}, {110, 120}, {150, 150}, {151, 160}, {160, 160}} {
			at, err := c.Position(want.rv, kube.ExpiredWatch)
			if err != nil {
				t.Errorf("Position(%d): %v", want.rv, err)
			} else if shown := c.Version(at); shown != want.shown && want.rv <= 110 {
				t.Errorf("Version(Position(%d)) = %d, want %d", want.rv, shown, want.shown)
			}
		}
		for _, rv := range []kube.ResourceVersion{99, 121, 149} {
			_, err := c.Position(rv, kube.ExpiredWatch)
			if _, is := errors.AsType[*kube.ExpiredError](err); !is {
				t.Errorf("Position(%d) = %v, want it expired", rv, err)
			}
		}
		_, err := c.Position(161, kube.ExpiredWatch)
		if _, is := errors.AsType[*kube.TooLargeResourceVersionError](err); !is {
			t.Errorf("Position(161) = %v, want it too large", err)
		}
	}
	m, end := open(t, mirror.Options{Dir: dir})
	c, err := m.Collection(t.Context(), "pods.v1")
	if err != nil {
		t.Fatalf("open the collection: %v", err)
	}
	if _, err := c.Replace(t.Context(), nil, []mirror.Change{put("a", 90), put("b", 80)}, 100); err != nil {
		t.Fatalf("replace: %v", err)
	}
	if _, err := c.Append(t.Context(), []mirror.Change{put("a", 105), {Key: wire.Key{Name: "b"}, RV: 107}, put("c", 109)},
		120); err != nil {
		t.Fatalf("append: %v", err)
	}
	if _, err := c.Replace(t.Context(), []wire.Key{{Name: "a"}}, []mirror.Change{put("d", 130)}, 150); err != nil {
		t.Fatalf("replace: %v", err)
	}
	c.Progress(160)
	check(c)
	end()

	m, end = open(t, mirror.Options{Dir: dir})
	if c, err = m.Collection(t.Context(), "pods.v1"); err != nil {
		t.Fatalf("open the collection: %v", err)
	}
	if c.Torn() || c.Reached() != 160 {
		t.Errorf("torn %t, reached %d; want a whole state at 160", c.Torn(), c.Reached())
	}
	check(c)
	page, err := m.Store().Read(t.Context(), store.Query{Start: "pods.v1/", End: store.PrefixEnd("pods.v1/")})
	if err != nil || len(page.Records) != 2 {
		t.Errorf("Read = %v, %v; want c and d", page.Records, err)
	}
	next, err := m.Rewrite(t.Context(), c)
	if err != nil {
		t.Fatalf("rewrite: %v", err)
	}
	if _, err := next.Replace(t.Context(), nil, []mirror.Change{put("z", 40)}, 50); err != nil {
		t.Fatalf("replace the file: %v", err)
	}
	for _, rv := range []kube.ResourceVersion{49, 51, 160} {
		_, err := next.Position(rv, kube.ExpiredWatch)
		if e, is := errors.AsType[*kube.ExpiredError](err); !is || e.Reason != kube.ReasonReplaced {
			t.Errorf("Position(%d) = %v, want that the history was replaced", rv, err)
		}
	}
	end()
}

// opened opens a mirror and a collection whose state is that at 100: the object a.
func opened(t *testing.T, o mirror.Options) (*mirror.Mirror, *mirror.Collection, func()) {
	t.Helper()
	m, end := open(t, o)
	c, err := m.Collection(t.Context(), "pods.v1")
	if err != nil {
		t.Fatalf("open the collection: %v", err)
	}
	if _, err := c.Replace(t.Context(), nil, []mirror.Change{put("a", 90)}, 100); err != nil {
		t.Fatalf("replace: %v", err)
	}
	return m, c, end
}

func TestDeletingWhatIsNotThereChangesNothing(t *testing.T) {
	dir := t.TempDir()
	_, c, end := opened(t, mirror.Options{Dir: dir})
	gone := mirror.Change{Key: wire.Key{Name: "x"}, RV: 105}
	after, err := c.Append(t.Context(), []mirror.Change{put("b", 103), gone, put("c", 107)}, 110)
	if err != nil || len(after) != 3 || after[0] >= after[1] || after[1] >= after[2] || c.Reached() != 110 {
		t.Errorf("Append = %v, %v; reached %d", after, err, c.Reached())
	}
	done, err := c.Replace(t.Context(), []wire.Key{{Name: "x"}, {Name: "b"}}, nil, 120)
	if err != nil || len(done.Changes) != 2 || done.Changes[0] != 0 || done.Changes[1] != done.After || c.Newest() != done.After {
		t.Errorf("Replace = %+v, %v; newest %d", done, err, c.Newest())
	}
	gone.RV = 125
	if _, err := c.Append(t.Context(), []mirror.Change{gone}, 125); err != nil {
		t.Errorf("append: %v", err)
	}
	end()
	m, end := open(t, mirror.Options{Dir: dir})
	defer end()
	if c, err = m.Collection(t.Context(), "pods.v1"); err != nil || c.Torn() || c.Reached() != 125 {
		t.Errorf("after a restart: torn %t, reached %d, %v", c.Torn(), c.Reached(), err)
	}
}

func TestTooLargeAnObjectLeavesTheStateAsItIs(t *testing.T) {
	_, c, end := opened(t, mirror.Options{Memory: true})
	defer end()
	large := mirror.Change{Key: wire.Key{Name: "b"}, RV: 105, Object: make([]byte, revlog.MaxValueBytes)}
	_, err := c.Replace(t.Context(), nil, []mirror.Change{large}, 110)
	if _, is := errors.AsType[*store.TooLargeError](err); !is || c.Torn() || c.Reached() != 100 {
		t.Errorf("Replace = %v, torn %t, reached %d", err, c.Torn(), c.Reached())
	}
	_, err = c.Append(t.Context(), []mirror.Change{put("c", 104), large}, 110)
	if _, is := errors.AsType[*store.TooLargeError](err); !is || c.Reached() != 100 {
		t.Errorf("Append = %v, reached %d", err, c.Reached())
	}
}

func TestACollectionIsOpenedOnce(t *testing.T) {
	m, c, end := opened(t, mirror.Options{Memory: true})
	defer end()
	if _, err := m.Collection(t.Context(), "pods.v1"); err == nil {
		t.Error("it is opened twice")
	}
	m.Release(c)
	if _, err := m.Collection(t.Context(), "pods.v1"); err != nil {
		t.Errorf("open the collection: %v", err)
	}
	c.Progress(110)
	if _, err := c.Replace(t.Context(), nil, nil, 120); !errors.Is(err, mirror.ErrReleased) {
		t.Errorf("Replace = %v, want ErrReleased", err)
	}
	if _, err := m.Rewrite(t.Context(), c); !errors.Is(err, mirror.ErrReleased) {
		t.Errorf("Rewrite = %v, want ErrReleased", err)
	}
}

func TestWhatIsLeftOfAFormerHistoryIsRemovedLater(t *testing.T) {
	d := disktest.New(rand.New(rand.NewPCG(1, 1)))
	m, c, end := opened(t, mirror.Options{FS: d, SegmentBytes: 64 << 10})
	written := 0
	d.SetFault(func(op disktest.Op) error {
		if op.Kind != "write" {
			return nil
		}
		if written++; written == 1 { // of the new history
			return nil
		}
		return syscall.ENOSPC
	})
	next, err := m.Rewrite(t.Context(), c)
	if err != nil || next.Epoch() != 1 || next.Reached() != 0 {
		t.Fatalf("Rewrite = %v; want an empty collection", err)
	}
	left := func() int {
		page, err := m.Store().Read(t.Context(), store.Query{Start: "pods.v1/", End: store.PrefixEnd("pods.v1/")})
		marks, err2 := m.Store().Read(t.Context(), store.Query{Start: "~pods.v1/", End: store.PrefixEnd("~pods.v1/")})
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("read the store: %v", err)
		}
		return len(page.Records) + len(marks.Records)
	}
	if left() == 0 {
		t.Fatal("the disk did not fail")
	}
	m.Release(next)
	d.SetFault(nil)
	end()
	m, end = open(t, mirror.Options{FS: d, SegmentBytes: 64 << 10})
	defer end()
	if _, err := m.Collection(t.Context(), "pods.v1"); err != nil {
		t.Fatalf("open the collection: %v", err)
	}
	if m.Tend(t.Context()); left() != 0 {
		t.Errorf("%d records are left", left())
	}
}

func TestOnlyADamagedLogIsMovedAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	_, _, end := opened(t, mirror.Options{Dir: dir})
	end()
	if err := os.Truncate(filepath.Join(dir, "MANIFEST"), 10); err != nil {
		t.Fatalf("truncate a file: %v", err)
	}
	m, end := open(t, mirror.Options{Dir: dir})
	c, err := m.Collection(t.Context(), "pods.v1")
	if err != nil || c.Reached() != 0 {
		t.Errorf("reached %d, %v; want an empty log", c.Reached(), err)
	}
	end()
	if _, err := os.Stat(filepath.Join(dir+".damaged", "MANIFEST")); err != nil {
		t.Errorf("look at a file: %v", err)
	}

	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "letter"), []byte("dear"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	_, err = mirror.Open(t.Context(), mirror.Options{Dir: foreign})
	if _, is := errors.AsType[*store.CorruptError](err); !is {
		t.Errorf("Open of another program's directory = %v, want *store.CorruptError", err)
	}
	if _, err := os.Stat(filepath.Join(foreign, "letter")); err != nil {
		t.Errorf("look at a file: %v", err)
	}
}

// TestAReplacementIsNotCutBetweenChangesAtOneResourceVersion: a reader who was shown one of them
// and goes on at the other server would miss the other one.
func TestAReplacementIsNotCutBetweenChangesAtOneResourceVersion(t *testing.T) {
	m, c, end := opened(t, mirror.Options{Memory: true, GroupWrites: 1})
	defer end()
	before := m.Stats().Groups
	if _, err := c.Replace(t.Context(), nil, []mirror.Change{put("b", 110), put("c", 105), put("d", 110)}, 120); err != nil {
		t.Fatalf("replace: %v", err)
	}
	if groups := m.Stats().Groups - before; groups != 4 {
		t.Errorf("%d groups, want one for each resourceVersion, the beginning and the end", groups)
	}
}

// TestADeletionThatWasCompactedHasNoResourceVersion: a reader who was handed it before must not
// take that of a later change for it, since a client that goes on from there would miss what is
// between them.
func TestADeletionThatWasCompactedHasNoResourceVersion(t *testing.T) {
	m, c, end := opened(t, mirror.Options{Memory: true})
	defer end()
	at, err := c.Append(t.Context(),
		[]mirror.Change{{Key: wire.Key{Name: "a"}, RV: 110}, put("b", 120), put("b", 130), put("b", 140)}, 140)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	if rv, err := m.Deleted("pods.v1/a", at[0]); rv != 110 || err != nil {
		t.Errorf("Deleted = %d, %v; want 110", rv, err)
	}
	if _, err := m.Store().Compact(t.Context(), store.Compaction{UpTo: at[2]}); err != nil {
		t.Fatalf("compact the store: %v", err)
	}
	m.Tend(t.Context())
	rv, err := m.Deleted("pods.v1/a", at[0])
	if _, compacted := errors.AsType[*store.CompactedError](err); !compacted {
		t.Errorf("Deleted = %d, %v; want that it is compacted", rv, err)
	}
	m.Release(c)
	if rv, err := m.Deleted("pods.v1/a", at[0]); !errors.Is(err, mirror.ErrReleased) {
		t.Errorf("Deleted = %d, %v after Release; want ErrReleased", rv, err)
	}
}
