package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// compactionAtEveryRevision compacts step by step through a history in which
// every kind of write is on the mark once, and compares everything each time.
func compactionAtEveryRevision(b *bench) {
	script(b)
	for _, revision := range b.oracle.Revisions() {
		b.compact(revision)
		b.agree()
	}
	b.put("pods/a", "after")
	b.remove("pods/a")
	b.agree()
	b.compact(b.current())
	b.agree()
}

func compactionKeepsQuietResources(b *bench) {
	first := b.put("quiet/x", "1")
	second := b.put("quiet/y", "2")
	for i := range 50 {
		b.put("pods/busy", fmt.Sprint(i))
	}
	b.compact(b.current())
	asked := time.Now()
	b.compact(b.current()) // again: what was removed stays removed when it was
	for _, after := range []int64{first - 1, first, second} {
		if _, err := Collect(b.Context(), b.store, store.From{Prefix: "quiet/", After: after, UpTo: b.current()}); err != nil {
			b.Errorf("a resource from which nothing was removed: feed after %d: %v", after, err)
		}
		b.read(store.Query{Start: "quiet/", End: store.PrefixEnd("quiet/"), AtRevision: after})
	}
	_, err := b.store.Changes(b.Context(), store.From{Prefix: "pods/", After: second})
	got, ok := errors.AsType[*store.CompactedError](err)
	if !ok || got.Resource != "pods" || got.Floor != b.current() || got.FloorTime.IsZero() || got.Reason != "requested" {
		b.Errorf("a busy resource gives %+v, want its floor %d", err, b.current())
	}
	if got != nil && (got.RemovedAt.Before(got.FloorTime) || got.RemovedAt.After(asked)) {
		b.Errorf("it was removed at %v, want between its last write at %v and %v", got.RemovedAt, got.FloorTime, asked)
	}
	b.agree()
}

func compactionOfEveryResource(b *bench) {
	b.put("quiet/x", "1")
	for i := range 5 {
		b.put("pods/busy", fmt.Sprint(i))
	}
	quiet := func(what string, after int64, expired bool) {
		b.Helper()
		_, err := Collect(b.Context(), b.store, store.From{Prefix: "quiet/", After: after, UpTo: b.current()})
		if _, is := errors.AsType[*store.CompactedError](err); is != expired {
			b.Errorf("%s: a feed after %d gives %v", what, after, err)
		}
		_, err = Collect(b.Context(), b.store, store.From{Prefix: "new/", After: after, UpTo: b.current()})
		if _, is := errors.AsType[*store.CompactedError](err); is != expired {
			b.Errorf("%s: a feed of a resource without objects after %d gives %v", what, after, err)
		}
	}
	first := b.current()
	b.compact(first)
	quiet("the usual compaction", first-1, false)
	every := func() {
		b.Helper()
		upTo := b.current()
		if got, err := b.store.Compact(b.Context(), store.Compaction{UpTo: upTo, Every: true}); err != nil || got != upTo {
			b.Fatalf("compact every resource up to %d gives %d, %v", upTo, got, err)
		}
		b.oracle.CompactEvery(upTo)
	}
	every() // nothing was written since
	quiet("the same for every resource", first-1, true)
	quiet("at the mark", first, false)
	b.agree()
	b.put("quiet/x", "2")
	b.put("late/y", "1")
	b.agree()
	every()
	quiet("again", first, true)
	b.agree()
	b.remove("late/y")
	b.compact(b.current())
	b.agree()
}

func compactionOnADelete(b *bench) {
	created := b.put("pods/a", "1")
	b.put("pods/b", "1")
	removed := b.remove("pods/a")
	b.compact(removed)
	b.agree()
	if page := b.read(store.Query{Start: "pods/a", AtRevision: removed}); len(page.Records) != 0 {
		b.Errorf("at its deletion the key still has %+v", page.Records)
	}
	if _, err := b.store.Read(b.Context(), store.Query{Start: "pods/a", AtRevision: created}); err == nil {
		b.Error("a state is readable that compaction removed")
	}
	// The deletion itself is behind the mark for a reader that saw it, and lost for others.
	if got, err := Collect(b.Context(), b.store, store.From{
		Prefix: "pods/", After: removed, UpTo: removed,
	}); err != nil || len(got) > 0 {
		b.Errorf("a feed after the deletion gives %v, %v", got, err)
	}
	if _, err := b.store.Changes(b.Context(), store.From{Prefix: "pods/", After: removed - 1}); err == nil {
		b.Error("a feed is given that must lack a deletion")
	}
	again := b.put("pods/a", "2")
	b.compact(again)
	b.agree()
	got, err := Collect(b.Context(), b.store, store.From{Prefix: "pods/", After: removed, UpTo: again})
	if err != nil {
		b.Fatalf("collect: %v", err)
	}
	b.equal("changes", got, b.oracle.after("pods/", removed, again))
}

func compactionBehindOrAhead(b *bench) {
	script(b)
	middle := b.oracle.Revisions()[30]
	b.compact(middle)
	got, err := b.store.Compact(b.Context(), store.Compaction{UpTo: middle - 5})
	if err != nil || got != middle {
		b.Errorf("a compaction behind the last gives %d, %v, want %d", got, err, middle)
	}
	b.agree()
	ahead := b.current() + 1
	_, err = b.store.Compact(b.Context(), store.Compaction{UpTo: ahead})
	if future, ok := errors.AsType[*store.FutureRevisionError](err); !ok || future.Requested != ahead ||
		future.Current != ahead-1 {
		b.Errorf("a compaction ahead gives %v, want FutureRevisionError", err)
	}
	b.agree()
}

func compactionByAge(b *bench) {
	script(b)
	if _, err := b.store.Compact(b.Context(), store.Compaction{OlderThan: time.Hour}); err != nil {
		b.Fatalf("compact the store: %v", err)
	}
	b.agree() // nothing is that old
}

// compactedFeedsEndOrAreComplete reads while the history is written and compacted
// behind, through and before the readers.
func compactedFeedsEndOrAreComplete(b *bench) {
	const writes = 400
	start := b.current()
	end := start + writes
	var wg sync.WaitGroup
	for _, from := range []store.From{{}, {Prefix: "pods/"}, {Prefix: "pods/1"}, {Key: "pods/2"}, {}, {Prefix: "pods/"}} {
		from.After, from.UpTo = start, end
		feed := b.changes(from)
		keys := 5 // of the feed
		if len(from.Prefix+from.Key) == len("pods/1") {
			keys = 1
		}
		wg.Go(func() {
			changes, err := drain(b.Context(), feed, from)
			if _, ok := errors.AsType[*store.CompactedError](err); ok {
				return
			}
			if err != nil || len(changes) != writes/5*keys {
				b.Errorf("feed %+v has %d of %d changes and ends with %v", from, len(changes), writes/5*keys, err)
			}
			for i, c := range changes {
				if i >= keys && c.Previous == nil {
					b.Errorf("revision %d has no previous version", c.Revision)
				}
			}
		})
	}
	for i := range writes {
		revision := b.put(fmt.Sprintf("pods/%d", i%5), fmt.Sprint(i))
		if i%40 == 39 {
			b.compact(revision - 20)
		}
	}
	wg.Wait()
	b.agree()
}

// heldFeedsStopCompaction: a feed with Hold delivers every change although compaction
// is due, and reports the compaction.
func heldFeedsStopCompaction(b *bench) {
	first := b.put("pods/a", "1")
	held := b.changes(store.From{After: first, Hold: true})
	second, last := b.put("pods/a", "2"), b.put("pods/a", "3")
	for _, c := range []store.Compaction{{UpTo: last}, {OlderThan: 1}} {
		if done, err := b.store.Compact(b.Context(), c); err != nil || done > first {
			b.Fatalf("%+v compacts up to %d, %v, but a feed holds what is after %d", c, done, err, first)
		}
	}
	batch, err := held.Next(b.Context())
	if err != nil || len(batch.Changes) != 2 || batch.Changes[0].Revision != second || batch.Through != last {
		b.Fatalf("the feed delivers %+v, %v, want revisions %d and %d", batch, err, second, last)
	}
	b.compact(second)
	batch, err = held.Next(b.Context())
	if err != nil || len(batch.Changes) != 0 || batch.Compacted != second || batch.Through != last {
		b.Errorf("the feed says %+v, %v, want that history up to %d is compacted", batch, err, second)
	}
	if err := held.Close(); err != nil {
		b.Fatalf("close the lock: %v", err)
	}
	b.put("pods/a", "4")
	b.compact(b.put("pods/a", "5")) // nothing holds it any more
}

// purges compacts with Purge between writes, also where nothing is left to compact.
func purges(b *bench) {
	for round := range 4 {
		for i := range 20 {
			b.put(fmt.Sprintf("pods/%d", i%7), fmt.Sprintf("%d of round %d", i, round))
		}
		last := b.remove("pods/3")
		for range 2 {
			if _, err := b.store.Compact(b.Context(), store.Compaction{UpTo: last, Purge: true}); err != nil {
				b.Fatalf("purge up to %d: %v", last, err)
			}
			b.oracle.Compact(last)
			b.agree()
		}
	}
	canceled, cause := b.canceled()
	if _, err := b.store.Compact(canceled, store.Compaction{UpTo: b.current(), Purge: true}); !errors.Is(err, cause) {
		b.Errorf("a purge whose context has ended gives %v, want %v", err, cause)
	}
}
