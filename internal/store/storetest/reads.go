package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

func readAtEveryRevisionEqualsReplay(b *bench) {
	script(b)
	b.agree()
	for _, revision := range b.oracle.Revisions() {
		page := b.read(store.Query{Start: "pods/c", AtRevision: revision})
		b.equal(fmt.Sprintf("pods/c at %d", revision), append([]store.Record{}, page.Records...),
			b.oracle.state(revision, "pods/c", ""))
		b.equal("page revision", page.Revision, revision)
	}
}

func limitSaysWhatRemains(b *bench) {
	for i := range 10 {
		b.put(fmt.Sprintf("pods/%d", i), "x")
	}
	b.remove("pods/3")
	b.put("podsx/0", "other")
	at := b.current()
	b.put("pods/9z", "later")
	var keys []string
	start := "pods/"
	for want := int64(9); ; {
		page := b.read(store.Query{Start: start, End: store.PrefixEnd("pods/"), AtRevision: at, Limit: 4, Count: true})
		n := int64(len(page.Records))
		want -= n
		if page.Revision != at || page.Remaining != want || page.More != (want > 0) {
			b.Fatalf("page %+v, want %d remaining at %d", page, want, at)
		}
		for _, r := range page.Records {
			keys = append(keys, r.Key)
		}
		if !page.More {
			break
		}
		start = keys[len(keys)-1] + "\x00"
	}
	b.equal("keys", keys, []string{"pods/0", "pods/1", "pods/2", "pods/4", "pods/5", "pods/6", "pods/7", "pods/8", "pods/9"})
	if page := b.read(store.Query{
		Start: "pods/", End: store.PrefixEnd("pods/"), Limit: 10, Count: true,
	}); page.More || page.Remaining != 0 || len(page.Records) != 10 {
		b.Errorf("a limit that is just enough leaves %d (more %v)", page.Remaining, page.More)
	}
	if page := b.read(store.Query{
		Start: "pods/", End: store.PrefixEnd("pods/"), Limit: 9,
	}); !page.More || page.Remaining != 0 || len(page.Records) != 9 {
		b.Errorf("without counting %d remain (more %v)", page.Remaining, page.More)
	}
}

// pages reads a range page by page.
func (b *bench) pages(q store.Query) (records []store.Record, pages int) {
	b.Helper()
	for {
		page := b.read(q)
		records, pages = append(records, page.Records...), pages+1
		if !page.More {
			return records, pages
		}
		if len(page.Records) == 0 {
			b.Fatalf("a page from %q has no record, and more follow", q.Start)
		}
		q.Start = page.Records[len(page.Records)-1].Key + "\x00"
	}
}

func largeValuesEndAPage(b *bench) {
	const large = 5 << 20
	for i := range 4 {
		b.put(fmt.Sprintf("pods/%d", i), strings.Repeat("x", large))
	}
	q := store.Query{Start: "pods/", End: store.PrefixEnd("pods/"), Limit: 100}
	records, pages := b.pages(q)
	if len(records) != 4 || pages < 2 {
		b.Errorf("%d records of 5 MiB in %d pages", len(records), pages)
	}
	if q.Limit = 0; len(b.read(q).Records) != 4 {
		b.Error("without a limit a page was cut")
	}
	q.Limit, q.Want = 100, func(string, int64) bool { return false }
	if page := b.read(q); len(page.Records) != 4 || page.More {
		b.Errorf("values that are not read count: %d records, more %v", len(page.Records), page.More)
	}
}

func unwantedValues(b *bench) {
	first := b.put("pods/a", "1")
	b.put("pods/b", "2")
	second := b.put("pods/a", "3")
	for _, at := range []int64{first, second - 1, second} {
		want := b.oracle.state(at, "pods/", store.PrefixEnd("pods/"))
		for i := range want {
			if want[i].ModRevision == first {
				want[i].Value = nil
			}
		}
		page := b.read(store.Query{
			Start: "pods/", End: store.PrefixEnd("pods/"), AtRevision: at,
			Want: func(key string, modRevision int64) bool { return key != "pods/a" || modRevision != first },
		})
		b.equal(fmt.Sprintf("without the first value, at %d", at), page.Records, want)
	}
}

func buffers(b *bench) {
	for i := range 500 {
		b.put(fmt.Sprintf("pods/%03d", (i*7)%500), strings.Repeat(string(rune('a'+i%26)), (i*i*31)%20000))
	}
	b.put("pods/large", strings.Repeat("x", 2<<20))
	var buffer store.Buffer
	q := store.Query{Start: "pods/", End: store.PrefixEnd("pods/"), Limit: 60, Buffer: &buffer}
	want := b.oracle.state(noLimit, q.Start, q.End)
	for {
		page := b.read(q)
		b.equal("page from "+q.Start, page.Records, want[:len(page.Records)])
		if want = want[len(page.Records):]; !page.More {
			break
		}
		q.Start = want[0].Key
	}
	b.equal("what was not read", len(want), 0)
}

// countsAtEveryRevision counts all ranges at all revisions, many of them at once.
func countsAtEveryRevision(b *bench) {
	script(b)
	starts := []string{"pods/", "pods/a", "pods/b", "pods/b\x00", "pods/z"}
	var wg sync.WaitGroup
	for _, revision := range b.oracle.Revisions() {
		for _, start := range starts {
			wg.Go(func() {
				q := store.Query{Start: start, End: store.PrefixEnd("pods/"), AtRevision: revision, Limit: 1, Count: true}
				page, err := b.store.Read(b.Context(), q)
				want := max(0, len(b.oracle.state(revision, q.Start, q.End))-1)
				if err != nil || page.Remaining != int64(want) || page.More != (want > 0) {
					b.Errorf("from %q at %d: %d remain (more %v, %v), want %d",
						start, revision, page.Remaining, page.More, err, want)
				}
			})
		}
	}
	wg.Wait()
}

func keysAreInByteOrderAndPrefixesExact(b *bench) {
	keys := []string{
		"pods/a", "pods/a.b", "pods/a/b", "pods/aa", "pods/ab\xff", "pods/b", "pods.metrics/a", "podsx/a", "pod/a", "pods/\x00",
		"pods/ü",
	}
	for _, key := range keys {
		b.put(key, "x")
	}
	for _, prefix := range []string{"pods/", "pods/a", "pods/a/", "pods/ab\xff", "pods.metrics/", "pod/", "pods/ü"} {
		page := b.read(store.Query{Start: prefix, End: store.PrefixEnd(prefix)})
		b.equal("range of "+prefix, page.Records, b.oracle.state(noLimit, prefix, store.PrefixEnd(prefix)))
	}
	all := b.read(store.Query{Start: "\x00", End: "\xff\xff"})
	if len(all.Records) != len(keys) {
		b.Errorf("the range of everything has %d records, want %d", len(all.Records), len(keys))
	}
	b.agree()
}

func futureRevisionsCannotBeRead(b *bench) {
	current := b.put("pods/a", "1")
	_, err := b.store.Read(b.Context(), store.Query{Start: "pods/a", AtRevision: current + 1})
	got, ok := errors.AsType[*store.FutureRevisionError](err)
	if !ok || got.Requested != current+1 || got.Current != current {
		b.Errorf("reading at %d gives %v, want FutureRevisionError with current %d", current+1, err, current)
	}
}

func progressCoversAcknowledgedWrites(b *bench) {
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 20 {
				done, err := b.store.Commit(b.Context(), store.Txn{Key: fmt.Sprintf("pods/%d-%d", w, i)})
				if err != nil {
					b.Errorf("commit: %v", err)
					return
				}
				now, err := b.store.Progress(b.Context())
				if err != nil || now < done.Revision {
					b.Errorf("progress is %d (%v) after %d was acknowledged", now, err, done.Revision)
				}
				if page, err := b.store.Read(b.Context(), store.Query{
					Start: "pods/", End: "pods0", AtRevision: now, Limit: 1,
				}); err != nil || page.Revision != now {
					b.Errorf("read at the progress %d: revision %d, %v", now, page.Revision, err)
				}
			}
		})
	}
	wg.Wait()
}

func feedsResumeAtEveryRevision(b *bench) {
	script(b)
	b.agree() // from every revision, for every resource and for all
	before, after := b.oracle.Revisions()[0]-1, b.current()
	for _, prefix := range []string{"pods/a", "pods/", "", "none/"} {
		got, err := Collect(b.Context(), b.store, store.From{Prefix: prefix, After: before, UpTo: after})
		if err != nil {
			b.Fatalf("collect: %v", err)
		}
		b.equal("changes of "+prefix, got, b.oracle.after(prefix, before, after))
	}
	all, err := Collect(b.Context(), b.store, store.From{UpTo: after})
	if err != nil {
		b.Fatalf("collect: %v", err)
	}
	b.equal("changes after 0", all, b.oracle.after("", 0, after))
}

func feedsEndAtUpTo(b *bench) {
	script(b)
	revisions := b.oracle.Revisions()
	for i := 0; i < len(revisions); i += 7 {
		for _, upTo := range []int64{revisions[i], revisions[len(revisions)-1]} {
			got, err := Collect(b.Context(), b.store, store.From{Prefix: "pods/", After: revisions[0], UpTo: upTo})
			if err != nil {
				b.Fatalf("collect: %v", err)
			}
			b.equal("changes", got, b.oracle.after("pods/", revisions[0], upTo))
		}
	}
	done := b.changes(store.From{Prefix: "pods/", After: revisions[5], UpTo: revisions[5]})
	for range 2 {
		if _, err := done.Next(b.Context()); !errors.Is(err, io.EOF) {
			b.Errorf("a feed at its end gives %v, want EOF", err)
		}
	}
	// An end in the future is waited for.
	feed := b.changes(store.From{Prefix: "quiet/", After: b.current(), UpTo: b.current() + 3})
	for i := range 4 {
		b.put("pods/late", fmt.Sprint(i))
	}
	through := int64(0)
	for {
		batch, err := feed.Next(b.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(batch.Changes) > 0 {
			b.Fatalf("batch %+v, %v", batch, err)
		}
		through = batch.Through
	}
	b.equal("through", through, b.current()-1)
}

func feedsWithALimit(b *bench) {
	script(b)
	revisions := b.oracle.Revisions()
	last := revisions[len(revisions)-1]
	for _, limit := range []int{1, 2, 7, 1 << 20} {
		feed := b.changes(store.From{Prefix: "pods/", After: revisions[0], UpTo: last, Limit: limit})
		var got []store.Change
		for {
			batch, err := feed.Next(b.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || len(batch.Changes) > limit ||
				len(batch.Changes) > 0 && batch.Changes[len(batch.Changes)-1].Revision > batch.Through {
				b.Fatalf("limit %d: %d changes through %d, %v", limit, len(batch.Changes), batch.Through, err)
			}
			got = append(got, batch.Changes...)
		}
		b.equal("changes", got, b.oracle.after("pods/", revisions[0], last))
	}
}

func feedsOfQuietPrefixesProgress(b *bench) {
	b.put("quiet/x", "1")
	feed := b.changes(store.From{Prefix: "quiet/", After: b.current()})
	through := b.current()
	for i := range 10 {
		revision := b.put("pods/busy", fmt.Sprint(i))
		for through < revision {
			batch, err := feed.Next(b.Context())
			if err != nil {
				b.Fatalf("read the feed: %v", err)
			}
			if len(batch.Changes) > 0 || batch.Through <= through || batch.Through > revision {
				b.Fatalf("batch %+v after %d with the store at %d", batch, through, revision)
			}
			through = batch.Through
		}
	}
}

func liveFeedsWake(b *bench) {
	start := b.put("pods/a", "0")
	feed := b.changes(store.From{Prefix: "pods/", After: start})
	type result struct {
		batch store.Batch
		err   error
	}
	results := make(chan result)
	for i := range 5 {
		go func() { // ends with the write below
			batch, err := feed.Next(b.Context())
			results <- result{batch, err}
		}()
		revision := b.put("pods/a", fmt.Sprint(i))
		got := <-results
		if got.err != nil {
			b.Fatal(got.err)
		}
		b.equal("batch", got.batch, store.Batch{Changes: b.oracle.after("pods/", revision-1, revision), Through: revision})
	}
}

func feedsFromTheFutureWait(b *bench) {
	now := b.put("pods/a", "0")
	feed := b.changes(store.From{Prefix: "pods/", After: now + 2})
	b.put("pods/a", "1")
	b.put("pods/a", "2")
	third := b.put("pods/a", "3")
	batch, err := feed.Next(b.Context())
	if err != nil {
		b.Fatalf("read the feed: %v", err)
	}
	b.equal("batch", batch, store.Batch{Changes: b.oracle.after("pods/", now+2, third), Through: third})
}

// feedsSeeConcurrentWrites reads live while several write, from the beginning and
// from the middle, and compares with what is read afterwards.
func feedsSeeConcurrentWrites(b *bench) {
	const writers, writes = 4, 50
	start := b.current()
	end := start + writers*writes
	var wg sync.WaitGroup
	seen := make([][]store.Change, 3)
	for i, from := range []store.From{{After: start}, {Prefix: "pods/", After: start}, {Prefix: "nodes/", After: start + 40}} {
		feed := b.changes(from)
		wg.Go(func() {
			for through := from.After; through < end; {
				batch, err := feed.Next(b.Context())
				if err == nil {
					err = checkBatch(batch, through, from)
				}
				if err != nil {
					b.Errorf("read the feed: %v", err)
					return
				}
				seen[i] = append(seen[i], batch.Changes...)
				through = batch.Through
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			key, expected := fmt.Sprintf("%s/%d", []string{"pods", "nodes"}[w%2], w), int64(0)
			for i := range writes {
				done, err := b.store.Commit(b.Context(), store.Txn{
					Key: key, Value: []byte(fmt.Sprint(i)), ExpectedModRevision: expected,
				})
				if err != nil {
					b.Errorf("commit: %v", err)
					return
				}
				expected = done.Revision
			}
		})
	}
	wg.Wait()
	for i, from := range []store.From{{After: start}, {Prefix: "pods/", After: start}, {Prefix: "nodes/", After: start + 40}} {
		from.UpTo = end
		want, err := Collect(b.Context(), b.store, from)
		if err != nil {
			b.Fatalf("collect: %v", err)
		}
		b.equal(fmt.Sprintf("live feed %+v", from), seen[i], want)
	}
}

func closedFeedsSaySo(b *bench) {
	b.put("pods/a", "1")
	feed := b.changes(store.From{Prefix: "pods/", After: b.current()})
	waited := make(chan error)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() { // ends when the feed is closed
		_, err := feed.Next(ctx)
		waited <- err
	}()
	if err := feed.Close(); err != nil {
		b.Fatalf("close the feed: %v", err)
	}
	if err := <-waited; !errors.Is(err, store.ErrClosed) {
		b.Errorf("a waiting feed that is closed gives %v, want ErrClosed", err)
	}
	if _, err := feed.Next(ctx); !errors.Is(err, store.ErrClosed) {
		b.Errorf("a closed feed gives %v, want ErrClosed", err)
	}
}

// readAtATimeIsTheStateThen reads at moments between writes. Clocks of replicas say when they saw a write.
func readAtATimeIsTheStateThen(b *bench) {
	type moment struct {
		at       time.Time
		revision int64
	}
	all := func(q store.Query) []store.Record {
		q.Start, q.End = "pods/", store.PrefixEnd("pods/")
		return append([]store.Record{}, b.read(q).Records...)
	}
	var moments []moment
	note := func() {
		revision := b.current()
		<-time.After(4 * time.Millisecond) // times are of ms
		moments = append(moments, moment{time.Now(), revision})
		<-time.After(4 * time.Millisecond)
	}
	b.put("pods/a", "1")
	note()
	b.put("pods/b", "1")
	b.put("pods/a", "2")
	note()
	b.put("configmaps/a", "of another resource")
	note()
	b.remove("pods/b")
	note()
	b.put("pods/b", "2")
	note()
	for i, m := range moments {
		b.equal(fmt.Sprintf("state at moment %d", i), all(store.Query{At: m.at}), all(store.Query{AtRevision: m.revision}))
		page := b.read(store.Query{Start: "pods/", End: store.PrefixEnd("pods/"), At: m.at, Limit: 1})
		b.equal("its revision reads the same", all(store.Query{AtRevision: page.Revision}), all(store.Query{At: m.at}))
	}
	b.equal("in the future", all(store.Query{At: time.Now().Add(time.Hour)}), all(store.Query{}))
	none := b.read(store.Query{Start: "secrets/", End: "secrets0", At: moments[0].at})
	b.equal("a resource without objects", len(none.Records), 0)

	if _, err := b.store.Compact(b.Context(), store.Compaction{UpTo: moments[3].revision}); err != nil {
		b.Fatalf("compact: %v", err)
	}
	_, err := b.store.Read(b.Context(), store.Query{Start: "pods/", End: store.PrefixEnd("pods/"), At: moments[0].at})
	if e, is := errors.AsType[*store.CompactedError](err); !is || e.Floor == 0 || e.FloorTime.Before(moments[0].at) {
		b.Errorf("at a time that is compacted: %v", err)
	}
	b.equal("at the floor", all(store.Query{At: moments[3].at}), all(store.Query{AtRevision: moments[3].revision}))
	b.equal("after the floor", all(store.Query{At: moments[4].at}), all(store.Query{AtRevision: moments[4].revision}))
	whole := b.read(store.Query{Start: "configmaps/", End: "configmaps0", At: moments[2].at})
	b.equal("what nothing was removed of", len(whole.Records), 1)
	for _, q := range []store.Query{
		{Start: "", End: "\xff", At: moments[4].at},
		{Start: "pods/a", At: moments[4].at, AtRevision: moments[4].revision},
	} {
		if _, err := b.store.Read(b.Context(), q); !errors.Is(err, store.ErrInvalid) {
			b.Errorf("%+v: %v, want an invalid request", q, err)
		}
	}
}
