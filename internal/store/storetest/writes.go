package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/gapless-io/gapless/internal/store"
)

func createNeedsAnAbsentKey(b *bench) {
	first := b.put("pods/a", "1")
	got := b.conflict(store.Txn{Key: "pods/a", Value: []byte("2")})
	b.equal("current record", got.Current, &store.Record{
		Key: "pods/a", Value: []byte("1"), ModRevision: first, CreateRevision: first,
	})
	b.agree()
}

func updateNeedsTheCurrentRevision(b *bench) {
	first := b.put("pods/a", "1")
	second := b.put("pods/a", "2")
	got := b.conflict(store.Txn{Key: "pods/a", Value: []byte("3"), ExpectedModRevision: first})
	b.equal("current record", got.Current, &store.Record{
		Key: "pods/a", Value: []byte("2"), ModRevision: second, CreateRevision: first,
	})
	for _, expected := range []int64{first, second + 1, -1} {
		if got := b.conflict(store.Txn{Key: "pods/missing", ExpectedModRevision: expected}); got.Current != nil {
			b.Errorf("a missing key has the record %+v", got.Current)
		}
	}
	b.agree()
}

func deleteNeedsTheCurrentRevision(b *bench) {
	first := b.put("pods/a", "1")
	second := b.put("pods/a", "2")
	for _, expected := range []int64{0, first, second + 1} {
		got := b.conflict(store.Txn{Key: "pods/a", Delete: true, ExpectedModRevision: expected})
		b.equal("current record", got.Current, &store.Record{
			Key: "pods/a", Value: []byte("2"), ModRevision: second, CreateRevision: first,
		})
	}
	b.remove("pods/a")
	for _, expected := range []int64{0, second} {
		if got := b.conflict(store.Txn{Key: "pods/a", Delete: true, ExpectedModRevision: expected}); got.Current != nil {
			b.Errorf("a deleted key has the record %+v", got.Current)
		}
	}
	b.agree()
}

func createAfterDeleteStartsAnew(b *bench) {
	b.put("pods/a", "1")
	b.put("pods/a", "2")
	b.remove("pods/a")
	again := b.put("pods/a", "3")
	page := b.read(store.Query{Start: "pods/a"})
	b.equal("records", page.Records, []store.Record{
		{Key: "pods/a", Value: []byte("3"), ModRevision: again, CreateRevision: again},
	})
	b.agree()
}

func revisionsAreContiguous(b *bench) {
	next := b.current() + 1
	for i := range 50 {
		key := fmt.Sprintf("pods/%d", i%7)
		if got := b.put(key, "x"); got != next {
			b.Fatalf("write %d got revision %d, want %d", i, got, next)
		}
		_ = b.conflict(store.Txn{Key: key}) // a write that fails takes no revision
		next++
	}
}

func valuesAreCopiedAndMayBeEmpty(b *bench) {
	value := []byte("before")
	b.commit(store.Txn{Key: "pods/a", Value: value})
	copy(value, "BEHIND")
	b.put("pods/empty", "")
	b.commit(store.Txn{Key: "pods/nil"})
	for _, r := range b.read(store.Query{Start: "pods/", End: store.PrefixEnd("pods/")}).Records {
		if r.Value == nil {
			b.Errorf("the value of %q is nil", r.Key)
		}
	}
	b.agree()
}

func largeValues(b *bench) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20/16)
	b.commit(store.Txn{Key: "secrets/large", Value: large})
	b.put("secrets/large", "small")
	b.commit(store.Txn{Key: "secrets/" + strings.Repeat("k", 1000), Value: large})
	b.agree()

	for what, txn := range map[string]store.Txn{
		"value": {Key: "secrets/v", Value: make([]byte, 64<<20)},
		"key":   {Key: "secrets/" + strings.Repeat("k", 1<<20)},
	} {
		_, err := b.store.Commit(b.Context(), txn)
		if got, ok := errors.AsType[*store.TooLargeError](err); !ok || got.What != what || got.Bytes <= got.Limit {
			b.Errorf("an enormous %s gives %v, want TooLargeError", what, err)
		}
	}
	b.put("secrets/v", "usable") // the store still works
}

func invalidRequestsAreRefused(b *bench) {
	ctx := b.Context()
	before := b.current()
	for _, key := range []string{"", "pods", "/", "/x"} {
		if _, err := b.store.Commit(ctx, store.Txn{Key: key}); !errors.Is(err, store.ErrInvalid) {
			b.Errorf("key %q gives %v, want ErrInvalid", key, err)
		}
	}
	for _, q := range []store.Query{{Start: "pods/", AtRevision: -1}, {Start: "pods/", Limit: -1}} {
		if _, err := b.store.Read(ctx, q); !errors.Is(err, store.ErrInvalid) {
			b.Errorf("query %+v gives %v, want ErrInvalid", q, err)
		}
	}
	for _, from := range []store.From{
		{Prefix: "pods"},
		{Prefix: "/"},
		{After: -1},
		{UpTo: -1},
		{Limit: -1},
		{MaxBytes: -1},
		{Key: "pods"},
		{Key: "/x"},
		{Prefix: "pods/", Key: "pods/a"},
	} {
		if _, err := b.store.Changes(ctx, from); !errors.Is(err, store.ErrInvalid) {
			b.Errorf("feed %+v gives %v, want ErrInvalid", from, err)
		}
	}
	for _, c := range []store.Compaction{{}, {UpTo: -1}, {OlderThan: -1}, {UpTo: 1, OlderThan: 1}} {
		if _, err := b.store.Compact(ctx, c); !errors.Is(err, store.ErrInvalid) {
			b.Errorf("compaction %+v gives %v, want ErrInvalid", c, err)
		}
	}
	b.equal("revision", b.current(), before)
}

// racingWritersWinOncePerRevision lets writers update one key by what they last
// saw: every revision must have exactly one winner, and every loser must be
// shown a record that is newer than what it expected.
func racingWritersWinOncePerRevision(b *bench) {
	const writers, wins = 8, 25
	start := b.current()
	var mu sync.Mutex
	won := map[int64]string{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var expected int64
			for i := 0; i < wins; {
				value := fmt.Sprintf("%d/%d", w, i)
				done, err := b.store.Commit(b.Context(), store.Txn{
					Key: "pods/one", Value: []byte(value), ExpectedModRevision: expected,
				})
				if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
					if conflict.Current == nil || conflict.Current.ModRevision <= expected {
						b.Errorf("expected %d, conflict with %+v", expected, conflict.Current)
						return
					}
					expected = conflict.Current.ModRevision
					continue
				}
				if err != nil {
					b.Errorf("commit: %v", err)
					return
				}
				mu.Lock()
				if other, ok := won[done.Revision]; ok {
					b.Errorf("revision %d went to %s and %s", done.Revision, other, value)
				}
				won[done.Revision] = value
				mu.Unlock()
				expected = done.Revision
				i++
			}
		})
	}
	wg.Wait()
	changes, err := Collect(b.Context(), b.store, store.From{Prefix: "pods/", After: start, UpTo: b.current()})
	if err != nil {
		b.Fatalf("collect: %v", err)
	}
	if len(changes) != writers*wins || b.current() != start+writers*wins {
		b.Fatalf("%d changes up to revision %d, want %d after %d", len(changes), b.current(), writers*wins, start)
	}
	for i, c := range changes {
		if c.Revision != start+int64(i)+1 || won[c.Revision] != string(c.Value) {
			b.Errorf("change %d has revision %d and value %q, which was won by %q", i, c.Revision, c.Value, won[c.Revision])
		}
		if i > 0 && (c.Previous == nil || c.Previous.ModRevision != c.Revision-1) {
			b.Errorf("revision %d replaces %+v, want %d", c.Revision, c.Previous, c.Revision-1)
		}
	}
}

func endedContextsEndCalls(b *bench) {
	b.put("pods/a", "1")
	live := b.changes(store.From{Prefix: "pods/", After: b.current()})
	ctx, cause := b.canceled()
	calls := map[string]func(context.Context) error{
		"Read":     func(ctx context.Context) error { _, err := b.store.Read(ctx, store.Query{Start: "pods/a"}); return err },
		"Commit":   func(ctx context.Context) error { _, err := b.store.Commit(ctx, store.Txn{Key: "pods/b"}); return err },
		"Changes":  func(ctx context.Context) error { _, err := b.store.Changes(ctx, store.From{}); return err },
		"Compact":  func(ctx context.Context) error { _, err := b.store.Compact(ctx, store.Compaction{UpTo: 1}); return err },
		"Progress": func(ctx context.Context) error { _, err := b.store.Progress(ctx); return err },
		"Next":     func(ctx context.Context) error { _, err := live.Next(ctx); return err },
	}
	for name, call := range calls {
		if err := call(ctx); !errors.Is(err, cause) {
			b.Errorf("%s with a context that ended gives %v, want its cause", name, err)
		}
	}
	waiting, cancel := context.WithCancelCause(b.Context())
	ended := make(chan error)
	go func() { // ends with the context it waits on
		_, err := live.Next(waiting)
		ended <- err
	}()
	cancel(cause)
	if err := <-ended; !errors.Is(err, cause) {
		b.Errorf("a waiting Next gives %v, want the context's cause", err)
	}
	b.agree()
}

// closedStoresSaySo asserts a method that store.Store does not have: a store is
// closed by its opener, so only its concrete type has Close.
func closedStoresSaySo(b *bench) {
	c, ok := b.store.(io.Closer)
	if !ok {
		b.Skip("the store cannot be closed")
	}
	b.put("pods/a", "1")
	live := b.changes(store.From{Prefix: "pods/", After: b.current()})
	waited := make(chan error)
	go func() { // ends when the store is closed
		_, err := live.Next(b.Context())
		waited <- err
	}()
	if err := c.Close(); err != nil {
		b.Fatalf("close: %v", err)
	}
	ctx := b.Context()
	_, read := b.store.Read(ctx, store.Query{Start: "pods/a"})
	_, commit := b.store.Commit(ctx, store.Txn{Key: "pods/b"})
	_, changes := b.store.Changes(ctx, store.From{})
	_, compact := b.store.Compact(ctx, store.Compaction{UpTo: 1})
	_, progress := b.store.Progress(ctx)
	for i, err := range []error{read, commit, changes, compact, progress, <-waited} {
		if !errors.Is(err, store.ErrClosed) {
			b.Errorf("call %d after Close gives %v, want ErrClosed", i, err)
		}
	}
	if err := c.Close(); err != nil {
		b.Errorf("second close: %v", err)
	}
}

// script is a fixed history with everything in it: creations, updates,
// deletions, keys that are created again, and two resources that are written rarely.
func script(b *bench) {
	b.Helper()
	b.put("quiet/x", "q1")
	for i := range 60 {
		key := fmt.Sprintf("pods/%c", 'a'+i*7%5)
		if i%6 == 5 && b.oracle.Current(key) != 0 {
			b.remove(key)
		} else {
			b.put(key, fmt.Sprint(i))
		}
		if i%20 == 10 {
			b.put(fmt.Sprintf("nodes/%d", i), "n")
		}
	}
	b.put("quiet/y", "q2")
}
