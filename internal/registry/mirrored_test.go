package registry_test

import (
	"errors"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// mirrored knows the resourceVersions of a mirror whose objects are all at 90, of deletions up to
// a revision no longer.
type mirrored struct{ forgotten int64 }

func (mirrored) Stored(value []byte) (rv kube.ResourceVersion, object []byte, err error) {
	return 90, value, nil
}

func (v mirrored) Deleted(key string, revision int64) (kube.ResourceVersion, error) {
	if revision <= v.forgotten {
		return 0, &store.CompactedError{Resource: store.ResourceOf(key), Requested: revision, Floor: v.forgotten + 1}
	}
	return 120, nil
}

func TestHistoryThatIsCompactedWhileItIsReadHasExpired(t *testing.T) {
	log := openLogWith(t, revlog.Options{Memory: true})
	commit := func(txn store.Txn) int64 {
		done, err := log.Commit(t.Context(), txn)
		if err != nil {
			t.Fatalf("commit to the log: %v", err)
		}
		return done.Revision
	}
	object := func(name string) store.Txn {
		return store.Txn{Key: "pods.v1/" + name, Value: []byte(`{"metadata":{"name":"` + name + `"}}`)}
	}
	first := commit(object("a"))
	commit(object("b"))
	last := commit(store.Txn{Key: "pods.v1/a", Delete: true, ExpectedModRevision: first})
	q := watchcache.Range{After: kube.ResourceVersion(first), UpTo: kube.ResourceVersion(last)}
	for _, known := range []bool{true, false} {
		v := mirrored{}
		if !known {
			v.forgotten = last
		}
		r := stored.NewMirror(log, v).Named("pods.v1", kinds.GroupResource{Resource: "pods"}, nil)
		entries, _, err := r.Entries(t.Context(), q)
		_, expired := errors.AsType[*kube.ExpiredError](err)
		switch {
		case known && (err != nil || len(entries) != 2 || entries[1].Object.ResourceVersion() != 120):
			t.Errorf("Entries = %v, %v; want both changes", entries, err)
		case !known && (!expired || len(entries) != 1):
			t.Errorf("Entries = %v, %v; want one change, and that the rest has expired", entries, err)
		}
	}
}
