package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
)

// unsafeOption is the name of the option for objects that cannot be read (KEP-3926).
const unsafeOption = "ignoreStoreReadErrorWithClusterBreakingPotential"

// unsafe reports whether a deletion is that of an object that cannot be read.
func unsafe(o metav1.DeleteOptions) bool {
	return o.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *o.IgnoreStoreReadErrorWithClusterBreakingPotential
}

// readable is the text of upstream's storage for an object that can be read (apiserver storage/etcd3 store.go getState).
const readable = "StorageError: invalid object, Code: 4, Key: /%s, ResourceVersion: 0, " +
	"AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"

// deleteUnread removes an object whose latest value cannot be read, whatever it is: its finalizers are not
// known, and no plugin is asked (apiserver registry/generic/registry corrupt_obj_deleter.go). Also a namespace goes
// so that always exists; it is created again. Errors: 404, 409 for an object that can be read or is written
// all the time, those of Target.MayDeleteUnread.
func (r *Registry) deleteUnread(ctx context.Context, w write) (wire.Written, error) {
	t, key := w.target, w.target.Key()
	if may := t.MayDeleteUnread; may != nil {
		if err := may(ctx); err != nil {
			return wire.Written{}, err
		}
	}
	for conflicts := 0; ; {
		s, err := w.cached.FreshOf(ctx, key)
		lost, is := errors.AsType[*store.UnreadableError](err)
		if !is {
			if err != nil {
				return wire.Written{}, err
			}
			if _, found := s.Get(key); !found || w.cached.Ended() {
				return wire.Written{}, wire.NotFound(t.Resource.GR(), t.Name)
			}
			return wire.Written{}, wire.Conflict(t.Resource.GR(), t.Name, fmt.Sprintf(readable, w.cached.Key(key)))
		}
		if w.dryRun {
			return wire.Written{Status: removedUnread(t)}, nil
		}
		done, err := w.cached.Commit(ctx, store.Txn{Key: lost.Key, Delete: true, ExpectedModRevision: lost.Revision})
		w.tell(done, err)
		if err == nil {
			return r.removedUnread(ctx, w, done)
		}
		if !overtaken(err, lost) {
			return wire.Written{}, stored.Failure(err)
		}
		if conflicts++; conflicts > maxConflicts {
			return wire.Written{}, wire.Conflict(t.Resource.GR(), t.Name, modified)
		}
	}
}

// overtaken reports whether a value was not deleted because there is another one by now, which may be unreadable too.
func overtaken(err error, lost *store.UnreadableError) bool {
	if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
		return true
	}
	now, is := errors.AsType[*store.UnreadableError](err)
	return is && now.Revision != lost.Revision
}

// removedUnread waits until everybody sees that an object was removed.
func (r *Registry) removedUnread(ctx context.Context, w write, done store.Committed) (wire.Written, error) {
	r.logger.LogAttrs(ctx, slog.LevelWarn, "an object was deleted that cannot be read",
		slog.String("resource", w.cached.GR.String()), slog.String("object", w.target.Key().String()),
		slog.Int64("rv", done.Revision))
	err := w.cached.WaitPublished(ctx, done.Revision)
	if err == nil && w.target.Resource.IsNamespace() {
		err = r.createNamespaces(ctx)
	}
	return wire.Written{Status: removedUnread(w.target)}, err
}

// removedUnread is the answer: upstream's handler makes it where it gets no object.
func removedUnread(t kinds.Target) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess, Code: http.StatusOK,
		Details: &metav1.StatusDetails{Name: t.Name, Kind: t.Resource.Kind},
	}
}
