package quota

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotas "github.com/gapless-io/gapless/internal/quota"
	"github.com/gapless-io/gapless/internal/wire"
)

// manager manages the status of quotas; in a cluster the controller is part of kube-controller-manager.
const manager = "kube-controller-manager"

func newNumber() *resource.Quantity { return resource.NewQuantity(0, resource.DecimalSI) }

// sync brings the status of a quota up to date, and returns when to look again; zero if nothing changes meanwhile.
func (c *Controller) sync(ctx context.Context, s *space, q *quotas.Quota, gone []gone) (again time.Time, err error) {
	key := wire.Key{Namespace: q.Namespace, Name: q.Name}
	n := s.countOf(q)
	if c.cfg.Shared {
		if err := c.owe(n, q, gone); err != nil {
			return time.Time{}, err
		}
	}
	end, err := c.cfg.Ledger.Turn(ctx, key)
	if err != nil {
		return time.Time{}, err
	}
	defer end()
	a := &attempt{c: c, space: s, count: n, name: q.Name}
	written, err := c.verbs.ChangeStatus(ctx, quotas.Quotas(), key, manager,
		func(u *unstructured.Unstructured, now *wire.Object) error {
			return a.make(ctx, u, now)
		})
	if isMissing(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, errors.Join(err, a.err)
	}
	if to := written.ResourceVersion(); to != a.from.ResourceVersion() {
		c.writes.Add(1)
		c.cfg.Ledger.Wrote(key, a.from.ResourceVersion(), to)
	}
	clear(a.count.owed)
	return a.again(), a.err
}

// owe notes what objects that are gone have used of a quota.
func (c *Controller) owe(n *count, q *quotas.Quota, all []gone) error {
	for _, g := range all {
		kind, counted := quotas.KindOf(g.gr, c.cfg.Classes)
		if !counted {
			continue
		}
		before, err := usedBy(kind, g.before, q)
		if err != nil {
			return err
		}
		after, err := usedBy(kind, g.after, q)
		if err != nil {
			return err
		}
		quotas.Add(n.owed, quotas.Rise(before, after))
	}
	return nil
}

// usedBy returns what an object uses of a quota; nothing for nil, and for one that its scopes do not select.
func usedBy(k quotas.Kind, o *wire.Object, q *quotas.Quota) (corev1.ResourceList, error) {
	if o == nil {
		return nil, nil
	}
	item, err := k.ItemOf(o)
	if err != nil {
		return nil, err
	}
	if in, err := q.Selects(item); err != nil || !in {
		return nil, err
	}
	return quotas.Only(item.Usage(), q.Spec.Hard), nil
}

// attempt is one write of a quota's status.
type attempt struct {
	c     *Controller
	space *space
	count *count
	name  string

	from    *wire.Object
	pending bool
	err     error // of what could not be counted
}

// make makes of the quota as it is now what it is when everything is counted.
func (a *attempt) make(ctx context.Context, u *unstructured.Unstructured, now *wire.Object) error {
	a.from, a.err = now, nil
	q, err := quotas.Read(now)
	if err != nil {
		return err
	}
	a.count = a.space.countOf(q)
	key := now.Key()
	if a.c.cfg.Shared && !a.c.cfg.Ledger.At(key, now.ResourceVersion()) {
		a.count.foreign = time.Now()
	}
	pending := a.c.cfg.Ledger.Pending(key) // before the count: see quotas.Ledger
	a.pending = len(pending) > 0
	a.err = a.c.refresh(ctx, a.space, a.count, q) // the rest is brought up to date all the same
	used := a.used(q, pending)
	hard := quotas.Sum(nil, q.Spec.Hard)
	if q.Status.Hard != nil && q.Status.Used != nil && quotas.Equal(hard, q.Status.Hard) && quotas.Equal(used, q.Status.Used) {
		return nil
	}
	u.Object["status"] = map[string]any{"hard": quotas.Tree(hard), "used": quotas.Tree(used)}
	return nil
}

// used returns the usage of a quota: what is counted, and what is charged for objects that are not stored yet. What is
// not counted stays as it is.
func (a *attempt) used(q *quotas.Quota, pending corev1.ResourceList) corev1.ResourceList {
	used := quotas.Only(q.Status.Used, q.Spec.Hard)
	counted := corev1.ResourceList{}
	for _, s := range a.count.sums {
		quotas.Add(counted, s.used)
	}
	for name, n := range counted {
		if slices.ContainsFunc(a.count.lost, func(k quotas.Kind) bool { return k.Matches(name) }) {
			continue
		}
		n = n.DeepCopy()
		more := pending[name]
		n.Add(more)
		was, known := q.Status.Used[name]
		switch {
		case !known:
		case n.Cmp(was) > 0 && !more.IsZero():
			n = was // an object may be counted that is still pending
		case n.Cmp(was) < 0 && a.foreignSince() < quotas.Unsettled:
			// Another server may have charged for what is not stored yet: only what is gone is given back.
			least := was.DeepCopy()
			least.Sub(a.count.owed[name])
			if n.Cmp(least) < 0 {
				n = least
			}
		}
		used[name] = n
	}
	return used
}

func (a *attempt) foreignSince() time.Duration {
	if a.count.foreign.IsZero() {
		return quotas.Unsettled
	}
	return time.Since(a.count.foreign)
}

// again returns when to look again; zero if nothing changes meanwhile.
func (a *attempt) again() (next time.Time) {
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if a.pending {
		sooner(time.Now().Add(created))
	}
	if since := a.foreignSince(); since < quotas.Unsettled {
		sooner(a.count.foreign.Add(quotas.Unsettled))
	}
	for _, s := range a.count.sums {
		if !s.ends.IsZero() {
			sooner(s.ends.Add(time.Millisecond))
		}
	}
	return next
}

func isMissing(err error) bool {
	status, is := errors.AsType[*wire.StatusError](err)
	return is && status.ErrStatus.Reason == metav1.StatusReasonNotFound
}
