package revlog_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
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
		t.Fatal(err)
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
	if page, err := l.Read(t.Context(), store.Query{Start: "r/", End: store.PrefixEnd("r/")}); err != nil || len(page.Records) != 0 {
		t.Errorf("Read = %+v, %v; want nothing", page, err)
	}
}
