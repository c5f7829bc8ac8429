package feed

import (
	"cmp"
	"slices"
	"time"

	"github.com/gapless-io/gapless/kube"
)

// Client is who opened a watch, and what it asked for.
type Client struct {
	User, UserAgent string
	Resource        string // "pods", or "deployments.apps"
	Version         string
	Namespace       string // "": all, or the resource has none
	// LabelSelector and FieldSelector are as the client wrote them.
	LabelSelector, FieldSelector string
	Since                        time.Time
}

// Open is a watch that is open.
type Open struct {
	Client

	// From is the resourceVersion that the client named; 0 if it named none.
	From kube.ResourceVersion
	// Delivered counts events, without bookmarks.
	Delivered uint64
	// Known is the last resourceVersion that was sent, by an event or a bookmark.
	Known kube.ResourceVersion
	// Writing says that events are being sent; otherwise it waits for changes.
	Writing bool
	// WritingSince is since when the events are being sent that are sent now.
	WritingSince time.Time
}

// Behind returns how many resourceVersions a watch is behind one that its resource has reached; 0 for one that waits for
// changes.
func (o *Open) Behind(reached kube.ResourceVersion) uint64 {
	if !o.Writing || reached <= o.Known {
		return 0
	}
	return uint64(reached - o.Known)
}

// Open returns the watches that are open, the oldest first.
func (s *Set) Open() []Open {
	all := s.unsorted()
	slices.SortFunc(all, func(a, b Open) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.UserAgent, b.UserAgent))
	})
	return all
}

func (s *Set) unsorted() []Open {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Open, 0, len(s.open))
	for f := range s.open {
		o := Open{
			Client: f.cfg.Client, From: f.cfg.Known, Delivered: f.sent.Load(), Known: kube.ResourceVersion(f.seen.Load()),
		}
		if since := f.writing.Load(); since != 0 {
			o.Writing, o.WritingSince = true, time.Unix(0, since)
		}
		all = append(all, o)
	}
	return all
}
