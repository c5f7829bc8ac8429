package storetest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/internal/store"
)

// ofKey returns those of some changes that are of one key.
func ofKey(changes []store.Change, key string) []store.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c store.Change) bool { return c.Key != key })
}

// feedsOfOneKey resume at every revision, with and without a limit.
func feedsOfOneKey(b *bench) {
	script(b)
	revisions := b.oracle.Revisions()
	last := revisions[len(revisions)-1]
	for _, key := range []string{"pods/a", "pods/b", "nodes/10", "pods/none", "none/a"} {
		for i, after := range revisions {
			from := store.From{Key: key, After: after, UpTo: last, Limit: i % 4}
			got, err := Collect(b.Context(), b.store, from)
			if err != nil {
				b.Fatalf("collect: %v", err)
			}
			b.equal(fmt.Sprintf("changes of %s after %d", key, after), got, ofKey(b.oracle.after("", after, last), key))
		}
	}
	b.compact(revisions[40])
	_, err := b.store.Changes(b.Context(), store.From{Key: "pods/a", After: revisions[0]})
	if compacted, is := errors.AsType[*store.CompactedError](err); !is || compacted.Floor != b.oracle.floor("pods/") {
		b.Errorf("a feed of a key below the floor %d: %v", b.oracle.floor("pods/"), err)
	}
}

// feedsWithABoundInBytes end a batch before it is too large, and read all the same.
func feedsWithABoundInBytes(b *bench) {
	start := b.current()
	for i := range 60 {
		b.put(fmt.Sprintf("pods/%d", i%7), strings.Repeat("x", i*i%30*100))
	}
	const most = 4000
	feed := b.changes(store.From{Prefix: "pods/", After: start, UpTo: b.current(), MaxBytes: most})
	var got []store.Change
	batches := 0
	for ; ; batches++ {
		batch, err := feed.Next(b.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(batch.Changes) == 0 {
			b.Fatalf("batch %+v, %v", batch, err)
		}
		bytes := 0
		for _, c := range batch.Changes {
			bytes += len(c.Value)
		}
		if bytes > most && len(batch.Changes) > 1 {
			b.Errorf("a batch of %d changes has %d bytes", len(batch.Changes), bytes)
		}
		got = append(got, batch.Changes...)
	}
	b.equal("changes", got, b.oracle.after("pods/", start, b.current()))
	total := 0
	for _, c := range got {
		total += len(c.Value)
	}
	if batches < total/most || batches > 30 {
		b.Errorf("%d bytes came in %d batches", total, batches)
	}
}

// feedsWithUnwantedValues are asked about each change in order, and leave out the values
// that are not wanted; the others are read into a buffer.
func feedsWithUnwantedValues(b *bench) {
	script(b)
	start, last := b.oracle.Revisions()[0], b.current()
	for range 3 { // a store may keep the newest values in memory
		b.put("large/a", strings.Repeat("x", 2<<20))
	}
	want := b.oracle.after("pods/", start, last)
	for i := range want {
		c := &want[i]
		if c.Revision%2 == 0 {
			c.Value = nil
		}
		if c.Previous != nil && c.Revision%3 == 0 {
			old := *c.Previous
			old.Value = nil
			c.Previous = &old
		}
	}
	var asked []int64
	feed := b.changes(store.From{
		Prefix: "pods/", After: start, UpTo: last, Limit: 10, Buffer: &store.Buffer{},
		Want: func(c store.Change) (value, previous bool) {
			if c.Value != nil || c.Previous != nil && (c.Previous.Value != nil || c.Previous.Key != c.Key) {
				b.Errorf("asked about %+v", c)
			}
			asked = append(asked, c.Revision)
			return c.Revision%2 != 0, c.Revision%3 != 0
		},
	})
	var seen []int64
	for {
		batch, err := feed.Next(b.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.Fatalf("read the feed: %v", err)
		}
		n := len(batch.Changes) // its values are valid until the next batch
		b.equal("batch", batch.Changes, want[:n])
		for _, c := range batch.Changes {
			seen = append(seen, c.Revision)
			if unwanted := c.Revision%2 == 0 || c.Deleted; unwanted != (c.Value == nil) {
				b.Errorf("value of %d: %q", c.Revision, c.Value)
			}
		}
		want = want[n:]
	}
	b.equal("changes that did not come", len(want), 0)
	b.equal("changes that were asked about", asked, seen)
}

// feedsWithKnownChanges deliver them in their places, as nothing but key and revision.
func feedsWithKnownChanges(b *bench) {
	script(b)
	start, last := b.oracle.Revisions()[0], b.current()
	for divisor := int64(1); divisor < 5; divisor++ {
		known := func(revision int64) bool { return revision%divisor == 0 }
		want := b.oracle.after("pods/", start, last)
		for i, c := range want {
			if known(c.Revision) {
				want[i] = store.Change{Revision: c.Revision, Key: c.Key}
			}
		}
		feed := b.changes(store.From{
			Prefix: "pods/", After: start, UpTo: last, Limit: 10, MaxBytes: 250,
			Known: func(key string, revision int64) (bytes int, known bool) {
				if b.oracle.after(key, revision-1, revision) == nil {
					b.Errorf("asked about %q at %d", key, revision)
				}
				return 60, revision%divisor == 0
			},
			Want: func(c store.Change) (value, previous bool) {
				if known(c.Revision) {
					b.Errorf("asked for the values of %d, which is known", c.Revision)
				}
				return true, true
			},
		})
		for {
			batch, err := feed.Next(b.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || len(batch.Changes) > 10 {
				b.Fatalf("%d changes, %v", len(batch.Changes), err)
			}
			n, knew := len(batch.Changes), 0
			b.equal("batch", batch.Changes, want[:n])
			for _, c := range want[:n] {
				if known(c.Revision) {
					knew++
				}
			}
			if knew*60 > 250 {
				b.Errorf("%d known changes of 60 bytes come at once", knew)
			}
			want = want[n:]
		}
		b.equal("changes that did not come", len(want), 0)
	}
}

func feedsThatMatch(b *bench) {
	script(b)
	start, last := b.oracle.Revisions()[0], b.current()
	got, err := Collect(b.Context(), b.store, store.From{
		Prefix: "pods/", After: start, UpTo: last, Limit: 4, Match: func(key string) bool { return strings.HasSuffix(key, "/b") },
	})
	if err != nil {
		b.Fatalf("collect: %v", err)
	}
	b.equal("changes", got, ofKey(b.oracle.after("pods/", start, last), "pods/b"))
}

// emptyRanges say whether the changes after a revision can be read.
func emptyRanges(b *bench) {
	script(b)
	revisions := b.oracle.Revisions()
	b.compact(revisions[30])
	for _, from := range []store.From{{Prefix: "pods/"}, {Prefix: "pods/a"}, {Key: "pods/a"}, {Prefix: "nodes/"}, {}} {
		for _, revision := range append(revisions, b.current()+100) {
			live, ended := from, from
			live.After, ended.After, ended.UpTo = revision, revision, revision
			if from.Prefix == "pods/a" { // also a range that ends before it begins
				ended.UpTo--
			}
			_, want := b.store.Changes(b.Context(), live)
			feed, got := b.store.Changes(b.Context(), ended)
			b.equal(fmt.Sprintf("%+v after %d", from, revision), fmt.Sprint(got), fmt.Sprint(want))
			if got != nil {
				continue
			}
			if _, err := feed.Next(b.Context()); !errors.Is(err, io.EOF) {
				b.Errorf("an empty range gives %v, want EOF", err)
			}
			ctx, cause := b.canceled()
			if _, err := feed.Next(ctx); !errors.Is(err, cause) {
				b.Errorf("a canceled Next gives %v, want its cause", err)
			}
			if err := feed.Close(); err != nil {
				b.Errorf("close the feed: %v", err)
			}
			if _, err := feed.Next(b.Context()); !errors.Is(err, store.ErrClosed) {
				b.Errorf("a closed feed gives %v, want ErrClosed", err)
			}
		}
	}
}
