package etcd

import (
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// Resources returns the present figures of each resource, with etcd's revisions; the map belongs to the caller. It looks
// at the resources, and not at their keys.
func (s *Store) Resources() map[string]revlog.ResourceStats {
	all := s.log.Resources()
	delete(all, own)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, of := range all {
		for _, position := range []*int64{&of.First.Revision, &of.Last.Revision, &of.Floor.Revision} {
			if *position > 0 {
				*position = s.positions.revision(*position)
			}
		}
		if has := s.known[name]; has.Since > of.Floor.Revision {
			of.Floor = revlog.Floor{Revision: has.Since, Reason: store.ReasonUnseen}
		}
		all[name] = of
	}
	return all
}

// ExpiresAt returns when the first change of a resource after a revision of etcd will be removed here, as revlog.Log.ExpiresAt
// foresees it; etcd's own compactions do not remove it. Zero: there is no such change, or it is not foreseen.
func (s *Store) ExpiresAt(resource string, revision int64) time.Time {
	s.mu.RLock()
	position := s.positions.at(revision)
	s.mu.RUnlock()
	return s.log.ExpiresAt(resource, position)
}
