package expiry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/controllers/expiry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/failing"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/kube"
)

const ttl = time.Hour

// open opens a log and runs it until stop, which the end of the test calls too.
func open(t *testing.T, o revlog.Options) (log *revlog.Log, stop func()) {
	t.Helper()
	log, err := revlog.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }() // ends with stop
	stop = func() {
		if ctx.Err() != nil {
			return
		}
		end()
		if err := errors.Join(<-ended, log.Close()); err != nil {
			t.Errorf("end the log: %v", err)
		}
	}
	t.Cleanup(stop)
	return log, stop
}

// expire runs an Expirer until stop, which the end of the test calls too.
func expire(t *testing.T, s store.Store) (e *expiry.Expirer, stop func()) {
	t.Helper()
	e = expiry.New(expiry.Config{
		Store: s, TTL: ttl, Logger: slog.New(slog.DiscardHandler),
		WaitPublished: func(context.Context, kube.ResourceVersion) error { return nil },
	})
	ctx, end := context.WithCancel(failing.By(context.WithoutCancel(t.Context()), "expiry"))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }() // ends with stop
	stop = func() {
		if ctx.Err() != nil {
			return
		}
		end()
		if err := <-ended; err != nil {
			t.Errorf("end the Expirer: %v", err)
		}
	}
	t.Cleanup(stop)
	return e, stop
}

// held returns the record of a key; nil if there is none.
func held(t *testing.T, s store.Store, key string) *store.Record {
	t.Helper()
	page, err := s.Read(t.Context(), store.Query{Start: key})
	if err != nil {
		t.Fatalf("read %s: %v", key, err)
	}
	if len(page.Records) == 0 {
		return nil
	}
	return &page.Records[0]
}

// put writes a key, whatever it holds.
func put(t *testing.T, s store.Store, key string) {
	t.Helper()
	txn := store.Txn{Key: key, Value: []byte("value")}
	if r := held(t, s, key); r != nil {
		txn.ExpectedModRevision = r.ModRevision
	}
	if _, err := s.Commit(t.Context(), txn); err != nil {
		t.Fatalf("write %s: %v", key, err)
	}
}

// count returns how many Events there are.
func count(t *testing.T, s store.Store) int {
	t.Helper()
	page, err := s.Read(t.Context(), store.Query{Start: "events/", End: store.PrefixEnd("events/")})
	if err != nil {
		t.Fatalf("read all: %v", err)
	}
	return len(page.Records)
}

// changes returns all changes so far.
func changes(t *testing.T, s store.Store) []store.Change {
	t.Helper()
	progress, err := s.Progress(t.Context())
	if err != nil {
		t.Fatalf("ask for the latest revision: %v", err)
	}
	feed, err := s.Changes(t.Context(), store.From{After: revlog.DefaultBaseRevision, UpTo: progress})
	if err != nil {
		t.Fatalf("open a feed: %v", err)
	}
	defer func() { _ = feed.Close() }() // it was read
	var all []store.Change
	for {
		batch, err := feed.Next(t.Context())
		all = append(all, batch.Changes...)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("read the feed: %v", err)
		}
	}
}

// faulty is a store that does what around says with the writes of the Expirer.
func faulty(s store.Store, around func(txn store.Txn, write func() error) error) store.Store {
	return failing.Store{Store: s, Controller: func(_ context.Context, _ string, txn store.Txn, write func() error) error {
		return around(txn, write)
	}}
}

func TestEventsAreDeletedTheirTTLAfterTheirLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := open(t, revlog.Options{Memory: true})
		others := []string{"configmaps/default/a", "events.example.com/default/a", "eventsinks/default/a"}
		for _, key := range others {
			put(t, log, key)
		}
		put(t, log, "events/default/before")
		<-time.After(10 * time.Minute)
		e, _ := expire(t, log)
		const n = 3000 // three pages
		for i := range n {
			put(t, log, fmt.Sprintf("events/default/e%d", i))
			if i%3 == 0 {
				put(t, log, fmt.Sprintf("events/default/e%d", i/2)) // written again, or for the first time
			}
			<-time.After(2 * time.Second)
		}
		<-time.After(ttl + time.Minute)
		synctest.Wait()
		if left := count(t, log); left != 0 || e.Stats() != (expiry.Stats{Deleted: e.Stats().Deleted}) {
			t.Errorf("%d Events are left, %+v", left, e.Stats())
		}
		for _, key := range others {
			if held(t, log, key) == nil {
				t.Errorf("%s is gone", key)
			}
		}
		written, deleted := map[string]time.Time{}, 0
		for _, c := range changes(t, log) {
			if !c.Deleted {
				written[c.Key] = c.Time
				continue
			}
			deleted++
			if lived := c.Time.Sub(written[c.Key]); lived < ttl || lived > ttl+time.Minute {
				t.Errorf("%s is deleted %v after its last write", c.Key, lived)
			}
		}
		if deleted < n+1 || int64(deleted) != e.Stats().Deleted {
			t.Errorf("%d deletions, %d are counted", deleted, e.Stats().Deleted)
		}
	})
}

func TestARestartDoesNotRenewEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := revlog.Options{FS: disk.NewMemory()}
		log, stopLog := open(t, options)
		_, stop := expire(t, log)
		put(t, log, "events/default/a")
		<-time.After(40 * time.Minute)
		put(t, log, "events/default/b")
		stop()
		stopLog()
		<-time.After(10 * time.Minute)
		log, _ = open(t, options)
		expire(t, log)
		for _, c := range []struct {
			after time.Duration // since the start
			want  int
		}{{9 * time.Minute, 2}, {11 * time.Minute, 1}, {49 * time.Minute, 1}, {51 * time.Minute, 0}} {
			<-time.After(c.after - time.Since(begun(t)))
			synctest.Wait()
			if got := count(t, log); got != c.want {
				t.Errorf("%v after the restart there are %d Events, want %d", c.after, got, c.want)
			}
		}
	})
}

// begun is when the second start of TestARestartDoesNotRenewEvents was: bubbles begin at one time.
func begun(t *testing.T) time.Time {
	t.Helper()
	return time.Date(2000, 1, 1, 0, 50, 0, 0, time.UTC)
}

func TestManyOldEventsAreDeletedInBoundedBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, most, perSecond = 10_000, 16, 2000
		log, _ := open(t, revlog.Options{Memory: true})
		for i := range n {
			put(t, log, fmt.Sprintf("events/default/e%d", i))
		}
		<-time.After(24 * time.Hour)
		var now, peak atomic.Int64
		expire(t, faulty(log, func(_ store.Txn, write func() error) error {
			for in := now.Add(1); ; {
				if before := peak.Load(); in <= before || peak.CompareAndSwap(before, in) {
					break
				}
			}
			<-time.After(time.Millisecond) // all that are begun are in progress
			defer now.Add(-1)
			return write()
		}))
		<-time.After(time.Second)
		if left := count(t, log); left < n-perSecond-most || left > n-perSecond/2 {
			t.Errorf("after a second %d Events are left", left)
		}
		put(t, log, "events/default/new") // others write meanwhile
		<-time.After(5 * time.Second)
		if left := count(t, log); left != 1 {
			t.Errorf("after six seconds %d Events are left, want the new one", left)
		}
		if peak.Load() > most {
			t.Errorf("%d deletions were in progress at once", peak.Load())
		}
	})
}

func TestAnEventThatIsWrittenWhileItIsDeletedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "events/default/a"
		log, _ := open(t, revlog.Options{Memory: true})
		renew := true
		e, _ := expire(t, faulty(log, func(_ store.Txn, write func() error) error {
			if renew {
				renew = false
				put(t, log, key)
			}
			return write()
		}))
		put(t, log, key)
		<-time.After(ttl + 30*time.Minute)
		synctest.Wait()
		if renew || held(t, log, key) == nil || e.Stats() != (expiry.Stats{}) {
			t.Fatalf("the Event is %v, %+v", held(t, log, key), e.Stats())
		}
		<-time.After(ttl)
		synctest.Wait()
		if held(t, log, key) != nil || e.Stats() != (expiry.Stats{Deleted: 1}) {
			t.Errorf("the Event is %v, %+v", held(t, log, key), e.Stats())
		}
	})
}

func TestEventsThatCannotBeDeletedHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stuck, n = 100, 200 // more than are deleted at once
		log, _ := open(t, revlog.Options{Memory: true})
		var well atomic.Bool
		e, _ := expire(t, faulty(log, func(txn store.Txn, write func() error) error {
			if strings.HasPrefix(txn.Key, "events/a-stuck/") && !well.Load() {
				return errors.New("not this one")
			}
			return write()
		}))
		for i := range stuck {
			put(t, log, fmt.Sprintf("events/a-stuck/e%d", i))
		}
		for i := range n {
			put(t, log, fmt.Sprintf("events/default/e%d", i))
		}
		<-time.After(ttl + time.Minute)
		synctest.Wait()
		if s := e.Stats(); count(t, log) != stuck || s.Deleted != n || s.Failed < stuck || s.Failed > 10*stuck {
			t.Errorf("%d Events are left, %+v", count(t, log), s)
		}
		well.Store(true)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if left := count(t, log); left != 0 {
			t.Errorf("%d Events are left", left)
		}
	})
}

func TestAStoreThatRefusesWritesIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		log, _ := open(t, revlog.Options{Memory: true})
		var well atomic.Bool
		var asked atomic.Int64
		e, _ := expire(t, faulty(log, func(_ store.Txn, write func() error) error {
			if well.Load() {
				return write()
			}
			asked.Add(1)
			return &store.UnavailableError{Cause: errors.New("the disk is full")}
		}))
		for i := range n {
			put(t, log, fmt.Sprintf("events/default/e%d", i))
		}
		<-time.After(ttl + 10*time.Minute)
		synctest.Wait()
		if s := e.Stats(); asked.Load() > 16*20 || s.Deleted != 0 || s.Failed != asked.Load() {
			t.Errorf("the store was asked %d times in ten minutes, %+v", asked.Load(), s)
		}
		well.Store(true)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if left := count(t, log); left != 0 {
			t.Errorf("%d Events are left", left)
		}
	})
}

// reads counts the reads of a store.
type reads struct {
	store.Store

	n atomic.Int64
}

func (r *reads) Read(ctx context.Context, q store.Query) (store.Page, error) {
	r.n.Add(1)
	return r.Store.Read(ctx, q)
}

func TestNothingIsReadBeforeSomethingCanExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := open(t, revlog.Options{Memory: true})
		counted := &reads{Store: log}
		expire(t, counted)
		for i := range 500 {
			put(t, log, fmt.Sprintf("events/default/e%d", i))
		}
		<-time.After(ttl - time.Minute)
		if n := counted.n.Load(); n != 1 {
			t.Errorf("the Events were read %d times, want once, at the start", n)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if n, left := counted.n.Load(), count(t, log); n > 3 || left != 0 {
			t.Errorf("the Events were read %d times, %d are left", n, left)
		}
	})
}
