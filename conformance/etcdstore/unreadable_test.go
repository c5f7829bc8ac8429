package etcdstore_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/store"
)

// choosy is a layout that cannot decode some values.
type choosy struct{ plain }

var errDamaged = errors.New("it is no object")

func (l choosy) AppendDecoded(b []byte, key string, stored []byte) ([]byte, error) {
	if strings.HasPrefix(string(stored), "damaged") {
		return nil, errDamaged
	}
	return l.plain.AppendDecoded(b, key, stored)
}

// TestAValueThatCannotBeReadIsDeliveredToWhomAsksForIt: all others get an error as long as it is the latest of its key,
// and then that of a compaction.
func TestAValueThatCannotBeReadIsDeliveredToWhomAsksForIt(t *testing.T) {
	m := startEtcd(t)
	o := optionsFor(m.URL())
	o.Layout = choosy{"/registry/"}
	s := run(t, o)
	ctx := within(t)
	put := func(name, value string) int64 {
		t.Helper()
		resp, err := s.Client().Put(ctx, "/registry/pods/"+name, value)
		if err != nil {
			t.Fatalf("put: %v", err)
		}
		if _, err := s.Progress(ctx); err != nil {
			t.Fatalf("wait for the write: %v", err)
		}
		return resp.Header.Revision
	}
	first := put("a", "1")
	put("b", "1")
	lost := put("a", "damaged 1")
	changes := func(after int64, unreadable bool) ([]store.Change, error) {
		t.Helper()
		through, err := s.Progress(ctx)
		if err != nil {
			t.Fatalf("ask for the latest revision: %v", err)
		}
		return changesOf(ctx, s, store.From{Prefix: "pods/", After: after, UpTo: through, Unreadable: unreadable})
	}
	check := func(what string, e *store.UnreadableError) {
		t.Helper()
		if e == nil || e.Key != "pods/a" || e.Place != "/registry/pods/a" || e.Revision != lost || !errors.Is(e, errDamaged) {
			t.Errorf("%s: %+v", what, e)
		}
	}
	page, err := s.Read(ctx, store.Query{Start: "pods/", End: "pods0", Unreadable: true})
	if err != nil || len(page.Records) != 2 || page.Records[0].Value != nil || page.Records[0].ModRevision != lost ||
		string(page.Records[1].Value) != "1" || page.Records[1].Unreadable != nil {
		t.Fatalf("read all: %+v, %v", page.Records, err)
	}
	check("the record", page.Records[0].Unreadable)
	_, err = s.Read(ctx, store.Query{Start: "pods/", End: "pods0"})
	e, _ := errors.AsType[*store.UnreadableError](err)
	check("the error of a read", e)
	all, err := changes(first, true)
	if err != nil || len(all) != 2 {
		t.Fatalf("the changes are %+v, %v", all, err)
	}
	check("the change", all[1].Unreadable)
	_, err = changes(first, false)
	e, _ = errors.AsType[*store.UnreadableError](err)
	check("the error of a stream", e)
	_, err = s.Commit(ctx, store.Txn{Key: "pods/a", Value: []byte("2"), ExpectedModRevision: first})
	e, _ = errors.AsType[*store.UnreadableError](err)
	check("the error of a write", e)

	put("a", "2")
	var compacted *store.CompactedError
	if _, err = changes(first, false); !errors.As(err, &compacted) || compacted.Reason != store.ReasonUnreadable ||
		compacted.Floor <= lost {
		t.Errorf("then a stream over it ends with %v", err)
	}
	if _, err := s.Read(ctx, store.Query{Start: "pods/a", AtRevision: lost}); !errors.As(err, &compacted) {
		t.Errorf("then a read at it ends with %v", err)
	}
	if all, err = changes(lost, false); err != nil && !errors.As(err, &compacted) {
		t.Errorf("a stream after it has %v, %v", all, err)
	}
	if _, err := s.Client().Delete(ctx, "/registry/pods/", clientv3.WithPrefix()); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if all, err = changes(lost, true); err != nil || !slices.ContainsFunc(all, func(c store.Change) bool { return c.Deleted }) {
		t.Errorf("all changes after it are %+v, %v", all, err)
	}
}

// changesOf reads a range of changes.
func changesOf(ctx context.Context, s store.Store, from store.From) ([]store.Change, error) {
	feed, err := s.Changes(ctx, from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = feed.Close() }() // it holds no more than its position
	var all []store.Change
	for {
		batch, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, batch.Changes...)
	}
}
