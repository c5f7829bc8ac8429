package revlog_test

import (
	"errors"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

// TestAResourceApartIsNoneOfAll: the log's user can read it by its keys; those who read all resources
// do not get it, and its compaction does not expire them.
func TestAResourceApartIsNoneOfAll(t *testing.T) {
	l := open(t, revlog.Options{Memory: true, Apart: "~own"})
	revisions, err := l.Append(t.Context(), []revlog.Write{
		{Key: "pods/a", Value: []byte("1")},
		{Key: "~own/mark", Value: []byte("1")},
		{Key: "~own/mark", Value: []byte("2")},
		{Key: "pods/b", Value: []byte("1")},
		{Key: "~own/mark", Value: []byte("3")},
	})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	first, last := revisions[0], revisions[4]
	if _, err := l.Compact(t.Context(), store.Compaction{UpTo: last}); err != nil {
		t.Fatalf("compact the log: %v", err)
	}
	changes, err := storetest.Collect(t.Context(), l, store.From{After: first, UpTo: last})
	if err != nil || len(changes) != 1 || changes[0].Key != "pods/b" {
		t.Errorf("all resources changed by %+v, %v", changes, err)
	}
	page, err := l.Read(t.Context(), store.Query{Start: "pods/", End: "~", AtRevision: first})
	if err != nil || len(page.Records) != 1 {
		t.Errorf("several resources have %+v, %v", page.Records, err)
	}
	if page, err = l.Read(t.Context(), store.Query{Start: "~own/mark"}); err != nil || string(page.Records[0].Value) != "3" {
		t.Errorf("the resource apart has %+v, %v", page.Records, err)
	}
	_, err = l.Changes(t.Context(), store.From{Key: "~own/mark", After: first})
	if _, is := errors.AsType[*store.CompactedError](err); !is {
		t.Errorf("the changes of the resource apart before a compaction: %v", err)
	}
}
