package revlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

func TestAppendWritesInOrderWithoutConditions(t *testing.T) {
	l := open(t, revlog.Options{Memory: true})
	ctx := t.Context()
	revisions, err := l.Append(ctx, []revlog.Write{
		{Key: "r/a", Value: []byte("1")},
		{Key: "r/a", Value: []byte("2")},
		{Key: "r/b", Delete: true}, // it does not exist
		{Key: "r/c", Value: []byte("3")},
		{Key: "r/a", Delete: true},
	})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	const base = revlog.DefaultBaseRevision
	if diff := cmp.Diff([]int64{base + 1, base + 2, 0, base + 3, base + 4}, revisions); diff != "" {
		t.Error("revisions (-want +got):\n" + diff)
	}
	page, err := l.Read(ctx, store.Query{Start: "r/", End: store.PrefixEnd("r/")})
	if err != nil || len(page.Records) != 1 || page.Records[0].Key != "r/c" {
		t.Errorf("Read = %+v, %v; want r/c only", page, err)
	}
	page, err = l.Read(ctx, store.Query{Start: "r/a", AtRevision: base + 2})
	if err != nil || len(page.Records) != 1 || string(page.Records[0].Value) != "2" || page.Records[0].CreateRevision != base+1 {
		t.Errorf("Read = %+v, %v; want the second value, created at the first write", page, err)
	}
}

func TestAppendsOfOneCallKeepTheirOrderBesideOthers(t *testing.T) {
	l := open(t, revlog.Options{Memory: true})
	const calls, each = 8, 3000 // more than the sequencer takes at once
	var wg sync.WaitGroup
	for c := range calls {
		wg.Go(func() {
			writes := make([]revlog.Write, each)
			for i := range writes {
				writes[i] = revlog.Write{Key: fmt.Sprintf("r%d/k", c), Value: fmt.Appendf(nil, "%d", i)}
			}
			revisions, err := l.Append(t.Context(), writes)
			if err != nil || len(revisions) != each {
				t.Errorf("Append = %d revisions, %v", len(revisions), err)
			}
			for i := 1; i < len(revisions); i++ {
				if revisions[i] <= revisions[i-1] {
					t.Errorf("write %d has revision %d after %d", i, revisions[i], revisions[i-1])
					return
				}
			}
		})
	}
	wg.Wait()
	for c := range calls {
		page, err := l.Read(t.Context(), store.Query{Start: fmt.Sprintf("r%d/k", c)})
		if err != nil || len(page.Records) != 1 || string(page.Records[0].Value) != fmt.Sprint(each-1) {
			t.Errorf("Read = %+v, %v; want the last value", page, err)
		}
	}
}

func TestAppendRefusesAWholeCallWithABadWrite(t *testing.T) {
	l := open(t, revlog.Options{Memory: true})
	revisions, err := l.Append(t.Context(), []revlog.Write{{Key: "r/a"}, {Key: "no resource"}})
	if !errors.Is(err, store.ErrInvalid) || len(revisions) != 0 {
		t.Errorf("Append = %v, %v; want ErrInvalid", revisions, err)
	}
	if page, err := l.Read(t.Context(), store.Query{
		Start: "r/", End: store.PrefixEnd("r/"),
	}); err != nil || len(page.Records) != 0 {
		t.Errorf("Read = %+v, %v; want nothing", page, err)
	}
}

func TestAppendAppliesNothingAfterAWriteThatFailed(t *testing.T) {
	d := disktest.New(rand.New(rand.NewPCG(1, 1)))
	l := open(t, revlog.Options{FS: d, GroupWrites: 2})
	writes := make([]revlog.Write, 20)
	for i := range writes {
		writes[i] = revlog.Write{Key: fmt.Sprintf("r/%02d", i), Value: []byte("v")}
	}
	written := 0
	d.SetFault(func(op disktest.Op) error {
		if op.Kind != "write" || !strings.HasSuffix(op.Name, ".log") { // nor of the manifest
			return nil
		}
		if written++; written == 3 { // of the groups; the next one has room again
			return syscall.ENOSPC
		}
		return nil
	})
	revisions, err := l.Append(t.Context(), writes)
	if _, is := errors.AsType[*store.UnavailableError](err); !is {
		t.Errorf("Append = %v, want *store.UnavailableError", err)
	}
	if len(revisions) == 0 || len(revisions) > 4 {
		t.Errorf("Append returns %d revisions, want those of two groups", len(revisions))
	}
	page, err := l.Read(t.Context(), store.Query{Start: "r/", End: store.PrefixEnd("r/")})
	if err != nil || len(page.Records) != len(revisions) {
		t.Errorf("Read = %d records, %v; want the %d that were acknowledged", len(page.Records), err, len(revisions))
	}
	if _, err := l.Append(t.Context(), writes[len(revisions):]); err != nil {
		t.Errorf("the next Append: %v", err)
	}
}

func TestWritesThatAreBoundAreInOneGroup(t *testing.T) {
	l := open(t, revlog.Options{Memory: true, GroupWrites: 1})
	writes := make([]revlog.Write, 3000)
	for i := range writes {
		writes[i] = revlog.Write{Key: "r/k", Value: []byte("v"), WithPrevious: i%3 != 0}
	}
	if _, err := l.Append(t.Context(), writes); err != nil {
		t.Fatalf("append: %v", err)
	}
	if groups := l.Stats().Groups; groups != 1000 {
		t.Errorf("%d groups, want one for every three writes", groups)
	}
}

func TestAppendRefusesMoreBoundWritesThanAGroupHas(t *testing.T) {
	l := open(t, revlog.Options{Memory: true})
	large := []byte(strings.Repeat("x", revlog.MaxValueBytes/2))
	bound := func(n int, together bool) []revlog.Write {
		writes := make([]revlog.Write, n)
		for i := range writes {
			writes[i] = revlog.Write{Key: fmt.Sprintf("r/%d", i), Value: large, WithPrevious: together}
		}
		return writes
	}
	if _, err := l.Append(t.Context(), bound(3, false)); err != nil {
		t.Errorf("three large writes: %v", err)
	}
	if _, err := l.Append(t.Context(), bound(2, true)); err != nil {
		t.Errorf("two bound writes: %v", err)
	}
	_, err := l.Append(t.Context(), bound(3, true))
	if _, is := errors.AsType[*store.TooLargeError](err); !is {
		t.Errorf("three bound writes: %v, want *store.TooLargeError", err)
	}
}
