package upstream_test

import (
	"context"
	"testing"

	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

// suite is one test of upstream.
type suite struct {
	run func(ctx context.Context, t *testing.T, w *world)
	// note says in what the test is not run as upstream runs it; "" for nothing.
	note string
	// notOverEtcd says why the test is not run over etcd; "" if it is.
	notOverEtcd string
	// alone says that the test changes a feature gate of the process, or has itself limited how long it may take.
	alone bool
}

// writes are the tests of create, update, delete and get.
func writes() map[string]suite {
	return map[string]suite{
		"RunTestCreateWithKeyExist": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestCreateWithKeyExist(ctx, t, w)
		}},
		"RunTestGet": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestGet(ctx, t, w)
		}},
		"RunTestUnconditionalDelete": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestUnconditionalDelete(ctx, t, w)
		}},
		"RunTestConditionalDelete": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestConditionalDelete(ctx, t, w)
		}},
		"RunTestDeleteWithSuggestion": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestDeleteWithSuggestion(ctx, t, w)
		}},
		"RunTestDeleteWithSuggestionAndConflict": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestDeleteWithSuggestionAndConflict(ctx, t, w)
		}},
		"RunTestDeleteWithConflict": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestDeleteWithConflict(ctx, t, w)
		}},
		"RunTestDeleteWithSuggestionOfDeletedObject": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestDeleteWithSuggestionOfDeletedObject(ctx, t, w)
		}},
		"RunTestValidateDeletionWithSuggestion": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestValidateDeletionWithSuggestion(ctx, t, w)
		}},
		"RunTestValidateDeletionWithOnlySuggestionValid": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestValidateDeletionWithOnlySuggestionValid(ctx, t, w)
		}},
		"RunTestPreconditionalDeleteWithSuggestion": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestPreconditionalDeleteWithSuggestion(ctx, t, w)
		}},
		"RunTestPreconditionalDeleteWithOnlySuggestionPass": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass(ctx, t, w)
		}},
		"RunTestGuaranteedUpdateChecksStoredData": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestGuaranteedUpdateChecksStoredData(ctx, t, w)
		}, notOverEtcd: "it writes white space, which the layout does not show; what is written again is " +
			"decided by Layout.Stale"},
		"RunTestGuaranteedUpdateWithConflict": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestGuaranteedUpdateWithConflict(ctx, t, w)
		}},
		"RunTestGuaranteedUpdateWithSuggestionAndConflict": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict(ctx, t, w)
		}},
		"RunTestKeySchema": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestKeySchema(ctx, t, w)
		}, notOverEtcd: "it writes a pod without a name, which is no object to the layout"},
		"RunTestCreate": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestCreate(ctx, t, w, w.checkStored)
		}},
		"RunTestGuaranteedUpdate": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestGuaranteedUpdate(ctx, t, w, w.checkStored)
		}},
	}
}

// reads are the tests of LIST.
func reads() map[string]suite {
	return map[string]suite{
		"RunTestGetListRecursivePrefix": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestGetListRecursivePrefix(ctx, t, w)
		}},
		"RunTestListPaging": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestListPaging(ctx, t, w)
		}},
		"RunTestNamespaceScopedList": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestNamespaceScopedList(ctx, t, w)
		}},
		"RunTestListResourceVersionMatch": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestListResourceVersionMatch(ctx, t, w)
		}},
		"RunTestList": {run: func(ctx context.Context, t *testing.T, w *world) {
			// As for upstream's cacher, but with a recorder that nothing reaches: where the
			// cacher may ask etcd, our cache answers.
			storagetesting.RunTestList(ctx, t, w, w.compact, true, &storagetesting.KubernetesRecorder{})
		}},
		"RunTestConsistentList": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestConsistentList(ctx, t, w, w.increaseRV, false, true, false)
		}, note: "as for etcd itself: every read is consistent"},
		"RunTestGetListNonRecursive": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, w.increaseRV, w)
		}},
		"RunTestListContinuation": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestListContinuation(ctx, t, w, nil)
		}, note: "how often etcd is asked is not counted"},
		"RunTestListPaginationRareObject": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, w, nil)
		}, note: "how often etcd is asked is not counted"},
		"RunTestListContinuationWithFilter": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, w, nil)
		}, note: "how often etcd is asked is not counted"},
		"RunTestListInconsistentContinuation": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, limitedAtZero{w}, w.compact)
		}, note: "a limit at resourceVersion 0 is taken for one without: a server ignores it there"},
		"RunTestStats": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestStats(ctx, t, w, w.Codec(), identity.NewEncryptCheckTransformer(), false)
		}, note: "sizes are not estimated"},
		"RunTestCompactRevision": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestCompactRevision(ctx, t, w, w.touch(ctx, t), w.compact)
		}, note: "the revision is moved by a write to a pod: writes to others never expire a list of pods"},
	}
}

// watches are the tests of WATCH.
func watches() map[string]suite {
	return map[string]suite{
		"RunTestWatch": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestWatch(ctx, t, w)
		}},
		"RunTestDeleteTriggerWatch": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestDeleteTriggerWatch(ctx, t, w)
		}},
		"RunTestWatchFromNonZero": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestWatchFromNonZero(ctx, t, w)
		}},
		"RunTestDelayedWatchDelivery": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestDelayedWatchDelivery(ctx, t, w)
		}},
		"RunTestWatchContextCancel": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestWatchContextCancel(ctx, t, w)
		}},
		"RunTestWatcherTimeout": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestWatcherTimeout(ctx, t, w)
		}},
		"RunTestWatchDeleteEventObjectHaveLatestRV": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV(ctx, t, w)
		}},
		"RunTestWatchInitializationSignal": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestWatchInitializationSignal(ctx, t, w)
		}},
		"RunTestClusterScopedWatch": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestClusterScopedWatch(ctx, t, w)
		}},
		"RunTestNamespaceScopedWatch": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestNamespaceScopedWatch(ctx, t, w)
		}},
		"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(ctx, t, w)
		}, alone: true}, // it makes 100 pods within 3 s
		"RunTestWatchFromZero": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestWatchFromZero(ctx, t, w, w.compact)
		}},
		"RunOptionalTestProgressNotify": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunOptionalTestProgressNotify(ctx, t, w, w.increaseRV)
		}},
		"RunTestWatchDispatchBookmarkEvents": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, w, true)
		}},
		"RunSendInitialEventsBackwardCompatibility": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunSendInitialEventsBackwardCompatibility(ctx, t, w)
		}},
		"RunWatchSemantics": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunWatchSemantics(ctx, t, w)
		}, alone: true},
		"RunWatchSemanticInitialEventsExtended": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunWatchSemanticInitialEventsExtended(ctx, t, w)
		}, alone: true},
		"RunWatchListMatchSingle": {run: func(ctx context.Context, t *testing.T, w *world) {
			storagetesting.RunWatchListMatchSingle(ctx, t, w)
		}, alone: true},
	}
}
