// Package storetest tests the contract of store.Store; each backend runs it.
//
// The suite is [Run]: a list of claims, each a small function over a new store. An [Oracle] is
// the simplest possible store, a list of writes, with which the claims and a backend's own
// model tests compare.
package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/store"
)

// Run tests a backend. open returns a new, empty store that accepts writes and
// lasts until the test ends. If it has a method Close() error, closing it is
// tested too.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	claims := []struct {
		name  string
		claim func(*bench)
	}{
		{"CreateNeedsAnAbsentKey", createNeedsAnAbsentKey},
		{"UpdateNeedsTheCurrentRevision", updateNeedsTheCurrentRevision},
		{"DeleteNeedsTheCurrentRevision", deleteNeedsTheCurrentRevision},
		{"CreateAfterDeleteStartsAnew", createAfterDeleteStartsAnew},
		{"RevisionsAreContiguous", revisionsAreContiguous},
		{"ValuesAreCopiedAndMayBeEmpty", valuesAreCopiedAndMayBeEmpty},
		{"LargeValuesComeBackAndTooLargeOnesAreRefused", largeValues},
		{"InvalidRequestsAreRefused", invalidRequestsAreRefused},
		{"RacingWritersWinOncePerRevision", racingWritersWinOncePerRevision},
		{"EndedContextsEndCalls", endedContextsEndCalls},
		{"ClosedStoresSaySo", closedStoresSaySo},

		{"ReadAtEveryRevisionEqualsReplay", readAtEveryRevisionEqualsReplay},
		{"ReadAtATimeIsTheStateThen", readAtATimeIsTheStateThen},
		{"LimitSaysWhatRemains", limitSaysWhatRemains},
		{"LargeValuesEndAPage", largeValuesEndAPage},
		{"ValuesThatAreNotWantedAreLeftOut", unwantedValues},
		{"ABufferIsForOnePageAtATime", buffers},
		{"CountsAreExactAtEveryRevision", countsAtEveryRevision},
		{"KeysAreInByteOrderAndPrefixesExact", keysAreInByteOrderAndPrefixesExact},
		{"FutureRevisionsCannotBeRead", futureRevisionsCannotBeRead},
		{"ProgressCoversAcknowledgedWrites", progressCoversAcknowledgedWrites},

		{"FeedsResumeAtEveryRevision", feedsResumeAtEveryRevision},
		{"FeedsEndAtUpTo", feedsEndAtUpTo},
		{"FeedsDeliverNoMoreThanTheirLimitAtOnce", feedsWithALimit},
		{"FeedsOfOneKeyResumeAtEveryRevision", feedsOfOneKey},
		{"FeedsDeliverNoMoreThanTheirBytesAtOnce", feedsWithABoundInBytes},
		{"FeedsLeaveOutValuesThatAreNotWanted", feedsWithUnwantedValues},
		{"FeedsDeliverKnownChangesWithoutContent", feedsWithKnownChanges},
		{"FeedsSelectKeysByAFunction", feedsThatMatch},
		{"EmptyRangesSayWhetherTheyCanBeRead", emptyRanges},
		{"FeedsOfQuietPrefixesProgress", feedsOfQuietPrefixesProgress},
		{"LiveFeedsWake", liveFeedsWake},
		{"FeedsFromTheFutureWait", feedsFromTheFutureWait},
		{"FeedsSeeConcurrentWritesOnceInOrder", feedsSeeConcurrentWrites},
		{"ClosedFeedsSaySo", closedFeedsSaySo},

		{"CompactionAtEveryRevisionKeepsTheRest", compactionAtEveryRevision},
		{"CompactionKeepsQuietResources", compactionKeepsQuietResources},
		{"CompactionOfEveryResourceExpiresQuietOnes", compactionOfEveryResource},
		{"CompactionOnADeleteForgetsTheKey", compactionOnADelete},
		{"PurgesKeepWhatCompactionKeeps", purges},
		{"CompactionBehindOrAhead", compactionBehindOrAhead},
		{"CompactionByAge", compactionByAge},
		{"CompactedFeedsEndOrAreComplete", compactedFeedsEndOrAreComplete},
		{"HeldFeedsStopCompactionAndReportIt", heldFeedsStopCompaction},
	}
	for _, c := range claims {
		t.Run(c.name, func(t *testing.T) {
			c.claim(&bench{T: t, store: open(t), oracle: &Oracle{}})
		})
	}
}

// bench is a store under test beside the oracle that saw the same writes.
type bench struct {
	*testing.T
	store  store.Store
	oracle *Oracle
}

// current returns the store's latest revision.
func (b *bench) current() int64 {
	b.Helper()
	revision, err := b.store.Progress(b.Context())
	if err != nil {
		b.Fatalf("ask for the progress: %v", err)
	}
	return revision
}

// put writes key over whatever is there.
func (b *bench) put(key, value string) int64 {
	b.Helper()
	return b.commit(store.Txn{Key: key, Value: []byte(value), ExpectedModRevision: b.oracle.Current(key)})
}

// remove deletes a key that exists.
func (b *bench) remove(key string) int64 {
	b.Helper()
	return b.commit(store.Txn{Key: key, Delete: true, ExpectedModRevision: b.oracle.Current(key)})
}

func (b *bench) commit(t store.Txn) int64 {
	b.Helper()
	done, err := b.store.Commit(b.Context(), t)
	if err != nil {
		b.Fatalf("commit %q: %v", t.Key, err)
	}
	b.oracle.Add(done.Revision, t)
	return done.Revision
}

// conflict commits what must fail, and returns the conflict.
func (b *bench) conflict(t store.Txn) *store.ConflictError {
	b.Helper()
	done, err := b.store.Commit(b.Context(), t)
	conflict, ok := errors.AsType[*store.ConflictError](err)
	if !ok {
		b.Fatalf("commit %q expecting %d gives revision %d, error %v, want a conflict",
			t.Key, t.ExpectedModRevision, done.Revision, err)
	}
	if conflict.Key != t.Key || conflict.Expected != t.ExpectedModRevision {
		b.Errorf("the conflict is about %q at %d, want %q at %d", conflict.Key, conflict.Expected, t.Key, t.ExpectedModRevision)
	}
	return conflict
}

func (b *bench) read(q store.Query) store.Page {
	b.Helper()
	page, err := b.store.Read(b.Context(), q)
	if err != nil {
		b.Fatalf("read %+v: %v", q, err)
	}
	return page
}

func (b *bench) changes(from store.From) store.Changes {
	b.Helper()
	feed, err := b.store.Changes(b.Context(), from)
	if err != nil {
		b.Fatalf("changes %+v: %v", from, err)
	}
	b.Cleanup(func() {
		if err := feed.Close(); err != nil {
			b.Errorf("close the feed: %v", err)
		}
	})
	return feed
}

func (b *bench) compact(upTo int64) {
	b.Helper()
	got, err := b.store.Compact(b.Context(), store.Compaction{UpTo: upTo})
	if err != nil || got != upTo {
		b.Fatalf("compact up to %d gives %d, %v", upTo, got, err)
	}
	b.oracle.Compact(upTo)
}

// agree compares all answers of the store with those of the oracle.
func (b *bench) agree() {
	b.Helper()
	if err := b.oracle.Compare(b.Context(), b.store); err != nil {
		b.Fatalf("compare with the oracle: %v", err)
	}
}

func (b *bench) equal(what string, got, want any) {
	b.Helper()
	if diff := cmp.Diff(want, got, untimed()); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// canceled returns a context that has ended with a cause of its own.
func (b *bench) canceled() (context.Context, error) {
	cause := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(b.Context())
	cancel(cause)
	return ctx, cause
}
