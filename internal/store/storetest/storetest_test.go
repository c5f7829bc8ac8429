package storetest_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broken is a store that lies in one way.
type broken struct {
	store.Store

	page  func(*store.Page)
	batch func(*store.Batch)
}

func (b broken) Read(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := b.Store.Read(ctx, q)
	if b.page != nil {
		b.page(&page)
	}
	return page, err
}

func (b broken) Changes(ctx context.Context, from store.From) (store.Changes, error) {
	feed, err := b.Store.Changes(ctx, from)
	return brokenFeed{feed, b.batch}, err
}

type brokenFeed struct {
	store.Changes

	batch func(*store.Batch)
}

func (f brokenFeed) Next(ctx context.Context) (store.Batch, error) {
	batch, err := f.Changes.Next(ctx)
	if f.batch != nil {
		f.batch(&batch)
	}
	return batch, err
}

func TestOracleDetectsEveryWrongAnswer(t *testing.T) {
	l, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.WithoutCancel(t.Context())) }() // ends with Close
	defer func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	}()
	oracle := &storetest.Oracle{}
	for _, value := range []string{"1", "2", "3"} {
		txn := store.Txn{Key: "pods/a", Value: []byte(value), ExpectedModRevision: oracle.Current("pods/a")}
		done, err := l.Commit(t.Context(), txn)
		if err != nil {
			t.Fatalf("commit: %v", err)
		}
		oracle.Add(done.Revision, txn)
	}
	if err := oracle.Compare(t.Context(), l); err != nil {
		t.Fatalf("an honest store: %v", err)
	}
	changes := func(lie func(c *store.Change)) func(*store.Batch) {
		return func(b *store.Batch) {
			for i := range b.Changes {
				lie(&b.Changes[i])
			}
		}
	}
	for name, s := range map[string]broken{
		"lost record":       {page: func(p *store.Page) { p.Records = nil }},
		"other value":       {page: func(p *store.Page) { p.Records[0].Value = []byte("x") }},
		"other create":      {page: func(p *store.Page) { p.Records[0].CreateRevision++ }},
		"lost change":       {batch: func(b *store.Batch) { b.Changes = b.Changes[min(1, len(b.Changes)):] }},
		"repeated change":   {batch: func(b *store.Batch) { b.Changes = append(b.Changes, b.Changes...) }},
		"no previous":       {batch: changes(func(c *store.Change) { c.Previous = nil })},
		"change for delete": {batch: changes(func(c *store.Change) { c.Deleted = true })},
		"stuck progress":    {batch: func(b *store.Batch) { b.Through = 1 }},
	} {
		s.Store = l
		if err := oracle.Compare(t.Context(), s); err == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}
