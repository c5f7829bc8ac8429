package feed

import (
	"errors"
	"time"

	"github.com/gapless-io/gapless/kube"
)

// Bounds of what is kept of watches that have expired.
const (
	keptExpired = 30
	keptText    = 256 // bytes of what a client has written
)

// Expired is a watch that got 410: its client lists again.
type Expired struct {
	Client

	At time.Time
	// From is the resourceVersion that the client named, and Known the last one that was sent to it.
	From, Known kube.ResourceVersion
	// Why is a sentence with the cause.
	Why string
}

// expires keeps a feed that ends by err, if that is 410.
func (s *Set) expires(f *Feed, err error) {
	expired, is := errors.AsType[*kube.ExpiredError](err)
	if !is {
		return
	}
	e := Expired{
		Client: f.cfg.Client, At: time.Now(), From: f.cfg.Known, Known: kube.ResourceVersion(f.seen.Load()), Why: expired.Why(),
	}
	for _, text := range []*string{&e.User, &e.Namespace, &e.UserAgent, &e.LabelSelector, &e.FieldSelector} {
		if len(*text) > keptText {
			*text = (*text)[:keptText] + "…"
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.expired) == keptExpired {
		s.expired = s.expired[1:]
	}
	s.expired = append(s.expired, e)
}

// Expired returns the last watches that got 410, the oldest first.
func (s *Set) Expired() []Expired {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Expired(nil), s.expired...)
}
