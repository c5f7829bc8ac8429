package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
)

// The log has the objects of the resources that the program knew which wrote it. One that serves other
// resources reads the state again before it shows anything. Of a resource that is new to the log, nothing is
// known before that: what is asked about an earlier revision is refused.

// others stands in Options.Known for all resources that are not in it.
const others = "*"

// knownAs is what the log notes of a resource.
type knownAs struct {
	Keys  string `json:"keys"`            // as in Options.Known
	Since int64  `json:"since,omitempty"` // from which revision on the log has it; 0: from its beginning
}

// resources are the resources that the log has, by name.
type resources map[string]knownAs

// loadKnown finds out which resources the log has, and hides what it holds while that are others than the
// layout has.
func (s *Store) loadKnown(ctx context.Context) error {
	record, err := s.loadOne(ctx, knownKey)
	if err != nil {
		return err
	}
	s.known = resources{}
	if record != nil {
		if err := json.Unmarshal(record, &s.known); err != nil {
			return fmt.Errorf("%q: %w: %w", knownKey, errRecord, err)
		}
	}
	if s.isComplete() || s.visible.rev == 0 {
		return nil
	}
	s.hidden, s.visible = s.visible, moment{}
	var added, gone []string
	for name := range s.opts.Known {
		if s.isNew(name) {
			added = append(added, name)
		}
	}
	for name := range s.known {
		if _, is := s.opts.Known[name]; !is {
			gone = append(gone, name)
		}
	}
	slices.Sort(added)
	slices.Sort(gone)
	s.logger.InfoContext(ctx, "the replica's log was written by a program that serves other resources: the state of etcd "+
		"is read before anything is served", slog.Any("new", added), slog.Any("gone", gone))
	return nil
}

// isComplete reports whether the log has the resources of the layout, and no others.
func (s *Store) isComplete() bool {
	return maps.EqualFunc(s.known, s.opts.Known, func(a knownAs, keys string) bool { return a.Keys == keys })
}

// named returns the name under which a resource is in Options.Known.
func (s *Store) named(resource string) string {
	if _, is := s.opts.Known[resource]; is {
		return resource
	}
	return others
}

// isNew reports whether the log does not have a resource yet.
func (s *Store) isNew(resource string) bool {
	name := s.named(resource)
	has, is := s.known[name]
	keys, knows := s.opts.Known[name]
	return knows && (!is || has.Keys != keys)
}

// recordKnown notes, after the state at a revision was recorded, that the log has the resources of the layout.
// A crash before it is only another reason to read the state. The caller has the turn.
func (s *Store) recordKnown(ctx context.Context, rev int64) error {
	if s.isComplete() {
		return nil
	}
	now := resources{}
	for name, keys := range s.opts.Known {
		switch {
		case !s.isNew(name):
			now[name] = s.known[name]
		case s.recorded().rev > 0:
			now[name] = knownAs{Keys: keys, Since: rev}
		default: // this is the log's first state
			now[name] = knownAs{Keys: keys}
		}
	}
	record, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode %q: %w", knownKey, err)
	}
	if err := s.writeOwn(ctx, knownKey, record); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = now
	return nil
}

// recorded returns what the log has, also while readers do not see it.
func (s *Store) recorded() moment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.hidden.rev > s.visible.rev {
		return s.hidden
	}
	return s.visible
}

// isHidden reports whether readers do not see what the log has.
func (s *Store) isHidden() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.hidden.rev > 0
}

// unknownLocked returns the error of a reader of a resource at a revision at which the log did not have it. mu
// is held.
func (s *Store) unknownLocked(resource string, rev int64) error {
	if since := s.known[s.named(resource)].Since; resource != "" && rev < since {
		return &store.CompactedError{Resource: resource, Requested: rev, Floor: since, Reason: store.ReasonUnseen}
	}
	return nil
}
