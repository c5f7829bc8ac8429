package gapless

import (
	"time"

	"github.com/gapless-io/gapless/kube"
)

// Watch is a watch that is open.
type Watch struct {
	User, UserAgent string
	Resource        string // "pods", or "deployments.apps"
	Namespace       string // "": all, or the resource has none
	// LabelSelector and FieldSelector are as the client wrote them.
	LabelSelector, FieldSelector string
	Since                        time.Time
	// From is the resourceVersion that the client named; 0 if it named none.
	From kube.ResourceVersion
	// Delivered counts the events that were sent, without bookmarks.
	Delivered uint64
	// Known is the last resourceVersion that was sent, by an event or a bookmark.
	Known kube.ResourceVersion
	// Behind is how many revisions the store was ahead of Known while events were being sent;
	// 0 for a watch that waits for changes.
	Behind uint64
}

// Watches returns the watches that are open, the oldest first. It blocks until the server is
// ready.
func (s *Server) Watches() []Watch {
	<-s.ready
	stats := s.registry.Stats()
	open := s.api.Watches()
	all := make([]Watch, len(open))
	for i, o := range open {
		all[i] = Watch{
			User: o.User, UserAgent: o.UserAgent, Resource: o.Resource, Namespace: o.Namespace,
			LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector, Since: o.Since,
			From: o.From, Delivered: o.Delivered, Known: o.Known, Behind: o.Behind(stats[o.Resource].RV),
		}
	}
	return all
}
