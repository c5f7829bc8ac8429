package stored_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// forgetful has forgotten the resourceVersions of deletions when it is asked.
type forgetful struct{ *mirror.Mirror }

func (forgetful) Deleted(key string, revision int64) (kube.ResourceVersion, error) {
	return 0, &store.CompactedError{Resource: store.ResourceOf(key), Requested: revision, Floor: revision + 10}
}

func TestHistoryThatIsCompactedWhileItIsReadHasExpired(t *testing.T) {
	m, err := mirror.Open(t.Context(), mirror.Options{Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	defer func() {
		stop()
		if err := errors.Join(<-ended, m.Close()); err != nil {
			t.Error(err)
		}
	}()
	c, err := m.Collection(t.Context(), "pods.v1")
	if err != nil {
		t.Fatal(err)
	}
	a := mirror.Change{Key: kube.Key{Name: "a"}, RV: 90, Object: []byte(`{"metadata":{"name":"a"}}`)}
	replaced, err := c.Replace(t.Context(), nil, []mirror.Change{a}, 100)
	if err != nil {
		t.Fatal(err)
	}
	b := mirror.Change{Key: kube.Key{Name: "b"}, RV: 110, Object: []byte(`{"metadata":{"name":"b"}}`)}
	at, err := c.Append(t.Context(), []mirror.Change{b, {Key: kube.Key{Name: "a"}, RV: 120}}, 120)
	if err != nil {
		t.Fatal(err)
	}
	q := watchcache.Range{After: kube.ResourceVersion(replaced.After), UpTo: kube.ResourceVersion(at[1] + 1)}
	for _, versions := range []stored.Versions{m, forgetful{m}} {
		r := stored.NewMirror(m.Store(), versions).Named("pods.v1", schema.GroupResource{Resource: "pods"}, nil)
		entries, _, err := r.Entries(t.Context(), q)
		_, expired := errors.AsType[*kube.ExpiredError](err)
		switch {
		case versions == m && (err != nil || len(entries) != 2 || entries[1].Object.ResourceVersion() != 120):
			t.Errorf("Entries = %v, %v; want both changes", entries, err)
		case versions != m && (!expired || len(entries) != 1):
			t.Errorf("Entries = %v, %v; want one change, and that the rest has expired", entries, err)
		}
	}
}
