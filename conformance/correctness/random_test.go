package correctness_test

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/testing/correctness"

	"github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/conformance/upstream"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of the random runs; 0 takes one from the time")
	writesFlag = flag.Int64("writes", 3000, "writes of each random run")
)

const (
	writers  = 4
	readers  = 3
	watchers = 12
	// keeping is the time between two compactions; each sixth time the store is
	// opened again instead.
	keeping = 30 * time.Millisecond
)

func TestRandomHistoriesMatchUpstreamsModel(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	for name, of := range map[string]struct {
		window int
		etcd   bool
	}{
		"default window": {}, "window of 8": {window: 8}, "over etcd, window of 8": {window: 8, etcd: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d (the choices are made again with -seed %d, the scheduling is not)", seed, seed)
			cfg := upstream.Config{Dir: t.TempDir(), Window: of.window}
			if of.etcd {
				cfg.Etcd = etcd.StartFor(t, etcd.Options{NoSync: true}).URL()
			}
			r := play(t, seed, cfg)
			if t.Failed() {
				return
			}
			j := judgeOf(t, &r.history)
			j.all(t, &r.history)
			r.historyReads += r.storage.Server().HistoryReads()
			t.Logf("%d compactions, the store was opened again %d times, %d reads of history",
				r.compactions, r.restarts, r.historyReads)
			if r.restarts == 0 || r.historyReads == 0 { // how many depends on the machine
				t.Error("too few restarts, or reads of history")
			}
			t.Run("and any change to them is not", func(t *testing.T) { refuteAll(t, j, &r.history, newDice(seed, -1)) })
		})
	}
}

// play lets all actors act, and returns what they have seen.
func play(t *testing.T, seed uint64, cfg upstream.Config) *run {
	t.Helper()
	r := &run{storage: open(t, cfg), config: cfg}
	r.acked.Store(1)
	r.writes.Store(*writesFlag)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var writing, reading, watching sync.WaitGroup
	actor := 0
	act := func(wg *sync.WaitGroup, times int, f func(ctx context.Context, d dice) error) {
		for range times {
			actor++
			d := newDice(seed, actor)
			// They end with ctx, or when there were enough writes; play waits for them.
			wg.Go(func() {
				if err := f(ctx, d); err != nil {
					t.Errorf("run: %v", err)
					cancel(err)
				}
			})
		}
	}
	end := make(chan uint64, watchers)
	act(&watching, watchers, func(ctx context.Context, d dice) error { return r.watcher(ctx, d, end) })
	act(&reading, readers, r.reader)
	act(&reading, 1, func(ctx context.Context, d dice) error { return r.compactor(ctx, d, keeping) })
	act(&writing, writers, r.writer)
	writing.Wait()
	cancel(nil)
	reading.Wait()
	if !t.Failed() {
		for range watchers {
			end <- r.acked.Load()
		}
	}
	close(end)
	watching.Wait()
	return r
}

// judge compares what clients have seen with the replayed writes.
type judge struct {
	replay    *correctness.Replay
	validator correctness.WatchValidator
}

// firstWrite is the resourceVersion of the first write.
const firstWrite = 2

func judgeOf(t *testing.T, h *history) judge {
	t.Helper()
	replay, err := h.replay(firstWrite)
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	return judge{replay: replay, validator: correctness.NewWatchValidator(storage.APIObjectVersioner{}, replay, keyOf)}
}

// all judges everything, and shows how much it was.
func (j judge) all(t *testing.T, h *history) {
	t.Helper()
	kinds := map[string]int{}
	for _, r := range h.reads {
		if err := j.read(r); err != nil {
			t.Errorf("read: %v", err)
		}
		kinds[kindOf(r.Request)]++
	}
	events := 0
	for _, op := range h.streams {
		if err := j.watch(op); err != nil {
			t.Errorf("watch: %v", err)
		}
		events += len(op.Response.Events)
	}
	resumed, caughtUp := 0, 0
	for _, c := range h.chains {
		if err := j.watch(c.WatchOperation); err != nil {
			t.Errorf("over %d watches: %v", c.streams, err)
		}
		if c.streams > 1 {
			resumed++
		}
		if c.caughtUp {
			caughtUp++
		}
	}
	for _, e := range h.expired {
		if !h.superseded(e.asked, e.marked) {
			t.Errorf("410 for resourceVersion %d, but no pod was superseded between it and %d, up to which history is compacted",
				e.asked, e.marked)
		}
	}
	t.Logf(
		"%d writes; reads %v; %d watches with %d events; %d chains of watches, %d of them resumed, %d caught up at the end; %d "+
			"times 410; %d cut by a restart",
		len(h.writes), kinds, len(h.streams), events, len(h.chains), resumed, caughtUp, len(h.expired), h.cut)
	if caughtUp != watchers || resumed == 0 || len(h.expired) == 0 || len(kinds) < 7 {
		t.Errorf("the run has not covered everything: %d of %d watchers at the end, %d resumed, %d times 410, %d kinds of reads",
			caughtUp, watchers, resumed, len(h.expired), len(kinds))
	}
}

// kindOf names how a read is served.
func kindOf(r correctness.Request) string {
	if r.Op == correctness.OpGet {
		return "get " + nameOf(r.Get.Options.ResourceVersion, "")
	}
	return "list " + nameOf(r.List.Options.ResourceVersion, r.List.Options.ResourceVersionMatch)
}

func nameOf(rv string, match metav1.ResourceVersionMatch) string {
	switch {
	case rv == "":
		return "most recent"
	case rv == "0":
		return "any"
	case match == metav1.ResourceVersionMatchExact:
		return "exact"
	}
	return "not older than"
}

// read judges one answer: it is a state of the model at its resourceVersion. Upstream's
// Replay leaves consistent reads to a linearizability checker; here each is taken
// for an exact one at its own resourceVersion, which must not be older than what
// was acknowledged when it began. gapless promises that of any read without a
// number: a write is answered when every reader can see it.
func (j judge) read(r read) error {
	if r.Request.Op == correctness.OpGet {
		opts := &r.Request.Get.Options
		if opts.ResourceVersion == "" || opts.ResourceVersion == "0" {
			opts.ResourceVersion = strconv.FormatUint(r.known, 10)
		}
		return j.replay.Validate(r.Request, r.Response)
	}
	list, is := r.Response.Object.(*example.PodList)
	if !is {
		return fmt.Errorf("list %s: a %T", r.Request.Key, r.Response.Object)
	}
	at, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("list %s: %w", r.Request.Key, err)
	}
	opts := &r.Request.List.Options
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact
	least := r.known
	if exact {
		least, _ = strconv.ParseUint(opts.ResourceVersion, 10, 64) // it was written by a number
	}
	if at < least || exact && at != least {
		return fmt.Errorf("list %s %s: at %d, after %d", kindOf(r.Request), r.Request.Key, at, least)
	}
	opts.ResourceVersion, opts.ResourceVersionMatch = list.ResourceVersion, metav1.ResourceVersionMatchExact
	return j.replay.Validate(r.Request, r.Response)
}

// watch judges one watch, or a chain of them, by upstream's validator. That one lets
// a bookmark pass whose own resourceVersion is that of a missing event; this does not.
func (j judge) watch(op correctness.WatchOperation) error {
	if err := j.validator.ValidateWatch(op.Request, op.Response); err != nil {
		return err
	}
	asked, err := storage.APIObjectVersioner{}.ParseResourceVersion(op.Request.Options.ResourceVersion)
	if err != nil {
		return err
	}
	known := max(asked, 1) // what the client has, from its initial state and the events
	for i, e := range op.Response.Events {
		rv := rvOf(e)
		if e.Type == watch.Bookmark && rv > known && (i > 0 || asked > 0) {
			missing, err := j.replay.EventsForRVs(op.Request, &correctness.ResourceVersionRange{Min: rv, Max: rv + 1})
			if err != nil {
				return err
			}
			initial, err := storage.HasInitialEventsEndBookmarkAnnotation(e.Object)
			if err != nil {
				return err
			}
			if len(missing) > 0 && !initial {
				return fmt.Errorf("watch %s: a bookmark at %d, but no event", op.Request.Key, rv)
			}
		}
		known = max(known, rv)
	}
	return nil
}

// refuteAll changes what was seen in every way that a broken server could have, and
// expects each change to be found.
func refuteAll(t *testing.T, j judge, h *history, d dice) {
	found := map[string]int{}
	expect := func(name string, err error, what any) {
		if err == nil {
			t.Errorf("not found: %s in %+v", name, what)
		}
		found[name]++
	}
	for _, op := range h.streams {
		for name, changed := range changedStreams(op, d) {
			expect(name,
				j.watch(correctness.WatchOperation{Request: op.Request, Response: correctness.WatchResponse{Events: changed}}),
				op.Request)
		}
	}
	for _, r := range h.reads {
		for name, changed := range changedReads(r, d) {
			expect(name, j.read(changed), r.Request)
		}
	}
	for name, changed := range changedWrites(h, d) {
		_, err := changed.replay(firstWrite)
		expect(name, err, "the writes")
	}
	t.Logf("changes that were found: %v", found)
	if len(found) != len(changes()) {
		t.Errorf("found %d kinds of changes, want %d", len(found), len(changes()))
	}
}
