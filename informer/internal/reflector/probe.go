package reflector

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/attempt"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/informer/internal/transition"
	"github.com/gapless-io/gapless/kube"
)

// readComparing is read, but first, if limit is not 0, compares the server's objects with the
// cache, to detect that the server has another history. API servers do not report that on
// a watch: from a version that they do not have, they are silent.
func (r *Reflector[T]) readComparing(ctx context.Context, a *attempt.Attempt, s transition.State,
	limit int64,
) (transition.Result, error) {
	if limit == 0 {
		return r.read(a, s)
	}
	found, asked, err := r.probe(ctx, s, limit)
	if err == nil && found == wentBack {
		defer a.Close()
		res, err := a.Ended(nil)
		res.Kind, res.Probed, res.Asked = transition.ResultWentBack, true, asked
		return res, err
	}
	answered := err == nil
	a.Gap = found == unclear // unless the watch begins with a 410, which says why
	res, err := r.read(a, s)
	res.Probed, res.Asked = answered, asked
	return res, err
}

// finding is the result of a comparison.
type finding int

// The findings: the server can have the history that the cache was read from; it has
// another one; the cache has objects that the server lacks, for unknown reasons.
const (
	follows finding = iota
	wentBack
	unclear
)

// comparedPages is how many pages are read at most to compare objects. Servers that fill
// pages need one.
const comparedPages = 10

// probe compares some of the server's objects with the cache, and returns how many
// requests that took. It returns an error if the server did not answer.
func (r *Reflector[T]) probe(ctx context.Context, s transition.State, limit int64) (found finding, asked int, err error) {
	if r.source.Vouches != nil && r.source.Vouches() {
		return follows, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, transition.OpenDeadline)
	defer cancel()
	o := r.source.Select
	o.Limit = limit
	now := comparison[T]{Reflector: r, position: s.RV, seen: map[handle.Key]struct{}{}}
	rv, err := now.read(ctx, o)
	switch {
	case err != nil:
		return follows, now.asked, err
	case now.differs || kube.OlderRV(rv, s.RV):
		return wentBack, now.asked, nil
	case !now.lacks():
		return follows, now.asked, nil
	}
	// Either they were deleted since, and the watch will say so, or this history never had
	// them. The state at the position tells which.
	o.ResourceVersion, o.ResourceVersionMatch = s.RV, metav1.ResourceVersionMatchExact
	then := comparison[T]{Reflector: r, position: s.RV, exact: true, seen: map[handle.Key]struct{}{}, asked: now.asked}
	rv, err = then.read(ctx, o)
	switch outcome := kube.Classify(err); {
	case outcome == kube.OutcomeExpired || outcome == kube.OutcomeInvalid, err == nil && rv != s.RV:
		return unclear, then.asked, nil // the server cannot read that state
	case err != nil:
		return follows, then.asked, err
	case then.differs || then.lacks():
		return wentBack, then.asked, nil
	}
	return follows, then.asked, nil
}

// comparison compares objects of a list with the cache.
type comparison[T handle.Object] struct {
	*Reflector[T]

	position string
	exact    bool // the list is of the state at the position
	asked    int  // requests
	seen     map[handle.Key]struct{}
	others   int // objects outside the collection
	differs  bool
	partial  bool // the list has more than was seen
	unknown  bool // the list has an item that is no object
}

// errUnknown says that a list has an item that cannot be identified.
var errUnknown = errors.New("an item of the list is no object")

// read compares up to o.Limit objects and returns the version of their list. It returns an
// error for a list with too many empty pages, and for one with an item that is no object,
// unless another object of that page differs.
func (c *comparison[T]) read(ctx context.Context, o metav1.ListOptions) (rv string, err error) {
	turns := pages{tokens: map[string]struct{}{}}
	for page := 0; ; page++ {
		c.asked++
		meta, err := c.source.List(ctx, o, func(raw []byte) error {
			c.look(raw)
			return nil
		})
		if err != nil {
			return "", err
		}
		if page == 0 {
			rv = meta.ResourceVersion
		}
		switch {
		case c.unknown && !c.differs:
			return "", errUnknown
		case meta.Continue == "":
			return rv, nil
		}
		if c.differs || page == comparedPages || int64(len(c.seen)) >= o.Limit {
			c.partial = true
			return rv, nil
		}
		if err := turns.next(meta.Continue, func() int { return len(c.seen) + c.others }); err != nil {
			return "", err
		}
		o.Continue, o.ResourceVersion, o.ResourceVersionMatch = meta.Continue, "", ""
	}
}

// look compares one object. If it was not changed since the position, the cache must have
// the same version.
func (c *comparison[T]) look(raw []byte) {
	meta, err := client.MetaOf(raw)
	if err != nil || meta.ResourceVersion == "" {
		c.unknown = true
		return
	}
	if !c.wanted(meta) {
		c.others++
		return
	}
	key := handle.Key{Namespace: meta.Namespace, Name: meta.Name}
	c.seen[key] = struct{}{}
	if !c.exact && meta.ResourceVersion != c.position && !kube.OlderRV(meta.ResourceVersion, c.position) {
		return
	}
	_, has := c.keeper.Has(meta)
	if unread, is := c.keeper.Unread[key]; is {
		// A state that could not be decoded, and now can be, is another one.
		_, err := c.decode(raw)
		has = err != nil && unread.UID == meta.UID && unread.ResourceVersion == meta.ResourceVersion
	}
	c.differs = c.differs || !has
}

// lacks reports whether the list lacks an object of the cache.
func (c *comparison[T]) lacks() bool {
	if c.partial {
		return false
	}
	lacks := false
	c.keeper.Tree.Scan(func(e state.Entry[T]) bool {
		_, is := c.seen[e.Key]
		lacks = !is
		return is
	})
	return lacks
}
