package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/kinds"
	quotas "github.com/gapless-io/gapless/internal/quota"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// count is what the objects of a namespace use of a quota.
type count struct {
	spec corev1.ResourceQuotaSpec // for which it was counted
	sums map[kinds.GroupResource]sum
	lost []quotas.Kind // which could not be counted

	// For a shared store:
	foreign time.Time           // when another server has written the quota last
	owed    corev1.ResourceList // of objects that are gone, and not given back yet
}

// sum is what the objects of a resource use.
type sum struct {
	used corev1.ResourceList
	at   int64     // space.changes when it was counted
	ends time.Time // when an object ceases to count; zero: none does
}

// seen is an object that was measured.
type seen struct {
	rv   kube.ResourceVersion
	item quotas.Item
}

// countOf returns the count of a quota, an empty one if its spec has changed.
func (s *space) countOf(q *quotas.Quota) *count {
	n := s.counts[q.Name]
	if n == nil || !equality.Semantic.DeepEqual(n.spec, q.Spec) {
		n = &count{spec: q.Spec, sums: map[kinds.GroupResource]sum{}, owed: corev1.ResourceList{}}
		s.counts[q.Name] = n
	}
	return n
}

// limited is a kind, and the names by which a quota limits it.
type limited struct {
	quotas.Kind

	names []corev1.ResourceName
}

// limitedBy returns what a quota limits of what is served.
func (c *Controller) limitedBy(q *quotas.Quota) map[kinds.GroupResource]*limited {
	of := map[kinds.GroupResource]*limited{}
	catalog := c.cfg.Live.Load()
	for name := range q.Spec.Hard {
		for _, gr := range quotas.Named(name) {
			if resource, served := catalog.Storage(gr); !served || !resource.Namespaced {
				continue
			}
			k, counted := quotas.KindOf(gr, c.cfg.Classes)
			if !counted || !k.Matches(name) {
				continue
			}
			if of[gr] == nil {
				of[gr] = &limited{Kind: k}
			}
			of[gr].names = append(of[gr].names, name)
		}
	}
	return of
}

// current reports whether nothing of a kind has changed since it was counted.
func (c *Controller) current(s *space, n *count, k quotas.Kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, counted := n.sums[k.Resource]
	return counted && last.at == s.changes[k.Resource] && (last.ends.IsZero() || time.Now().Before(last.ends))
}

// refresh counts what has changed since it was counted. Errors: what cannot be listed, of which there is no count then.
func (c *Controller) refresh(ctx context.Context, s *space, n *count, q *quotas.Quota) error {
	var errs []error
	n.lost = nil
	of := c.limitedBy(q)
	maps.DeleteFunc(n.sums, func(gr kinds.GroupResource, _ sum) bool { return of[gr] == nil }) // no longer served
	for _, k := range of {
		if c.current(s, n, k.Kind) {
			continue
		}
		c.mu.Lock()
		at := s.changes[k.Resource] // before the list
		c.mu.Unlock()
		used, ends, err := c.sum(ctx, s, k, q)
		if err != nil {
			delete(n.sums, k.Resource)
			n.lost = append(n.lost, k.Kind)
			errs = append(errs, fmt.Errorf("count %s of the namespace %s: %w", k.Resource, q.Namespace, err))
			continue
		}
		n.sums[k.Resource] = sum{used, at, ends}
	}
	return errors.Join(errs...)
}

// sum lists the objects of a kind, in a state that has all that was acknowledged, and returns what they use of a quota.
func (c *Controller) sum(
	ctx context.Context, s *space, k *limited, q *quotas.Quota,
) (used corev1.ResourceList, ends time.Time, err error) {
	used = corev1.ResourceList{}
	for _, name := range k.names {
		used[name] = *newNumber()
	}
	resource, served := c.cfg.Live.Load().Storage(k.Resource)
	if !served {
		return used, time.Time{}, nil
	}
	list, err := c.verbs.List(ctx, kinds.Target{Resource: resource, Namespace: q.Namespace, AsStored: true}, wire.ListOptions{
		Labels: labels.Everything(), Fields: fields.Everything(),
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	before, now := s.seen[k.Resource], map[string]seen{}
	for o, err := range list.Items {
		if err != nil {
			return nil, time.Time{}, err
		}
		one, err := measure(k.Kind, o, before)
		if err != nil {
			return nil, time.Time{}, err
		}
		if quotas.Updates(k.Resource, "") {
			now[o.Key().Name] = one
		}
		if end := quotas.EndOf(one.item); time.Now().Before(end) && (ends.IsZero() || end.Before(ends)) {
			ends = end
		}
		in, err := q.Selects(one.item)
		if err != nil {
			return nil, time.Time{}, err
		}
		if in {
			quotas.Add(used, quotas.Only(one.item.Usage(), used))
		}
	}
	s.seen[k.Resource] = now
	return used, ends, nil
}

// measure returns an object as quotas see it: as before if it is the same.
func measure(k quotas.Kind, o *wire.Object, before map[string]seen) (seen, error) {
	if last, has := before[o.Key().Name]; has && last.rv == o.ResourceVersion() {
		return last, nil
	}
	item, err := k.ItemOf(o)
	if err != nil {
		return seen{}, fmt.Errorf("measure %s %s: %w", k.Resource, o.Key(), err)
	}
	return seen{o.ResourceVersion(), quotas.Compact(item)}, nil
}
