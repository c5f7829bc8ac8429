package registry_test

import (
	"context"
	"slices"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
)

// recording notes of each write of an Event whether it is lasting.
type recording struct {
	store.Store

	lasting []bool
}

func (r *recording) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	if store.ResourceOf(t.Key) == "events" {
		r.lasting = append(r.lasting, t.Lasting)
	}
	return r.Store.Commit(ctx, t)
}

// TestWhatMarksAnObjectAsDeletedLasts: as upstream, where that write has no time to live, and the ones before and
// after it have.
func TestWhatMarksAnObjectAsDeletedLasts(t *testing.T) {
	r := &recording{}
	s, stop := serveOn(t, openLog(t), func(below store.Store) store.Store { r.Store = below; return r })
	at := s.at("events", "default", "e")
	s.create(s.at("events", "default"), `{"metadata":{"name":"e","namespace":"default","finalizers":["x.io/a","x.io/b"]},`+
		`"involvedObject":{"namespace":"default"}}`)
	s.delete(at)
	s.merge(at, `{"metadata":{"finalizers":["x.io/b"]}}`)
	s.merge(at, `{"metadata":{"finalizers":null}}`)
	stop()
	if !slices.Equal(r.lasting, []bool{false, true, false, false}) {
		t.Errorf("the writes are lasting: %v; want that of the deletion only", r.lasting)
	}
}
