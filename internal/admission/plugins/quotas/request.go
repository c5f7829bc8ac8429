package quotas

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/quota"
)

// request is a write that is to be charged.
type request struct {
	upstream.Attributes

	kind     quota.Kind
	now, was quota.Item // was is nil for a creation
	uses     corev1.ResourceList
	used     corev1.ResourceList // what it used before; nil for a creation
	charges  []charge
}

// request returns the write as quotas see it; nil if it does not change what they measure. Errors: an object that is
// none of its kind.
func (p *Plugin) request(a upstream.Attributes) (*request, error) {
	kind, counted := quota.KindOf(a.GetResource().GroupResource(), p.classes)
	if !counted {
		return nil, nil //nolint:nilnil // there is none
	}
	r := &request{Attributes: a, kind: kind}
	var err error
	if r.now, err = itemOf(kind, a.GetObject()); err != nil {
		return nil, err
	}
	if a.GetOperation() == upstream.Update {
		if a.GetOldObject() == nil {
			return nil, upstream.NewForbidden(a,
				errors.New("unable to get previous usage since prior version of object was not found"))
		}
		if r.was, err = itemOf(kind, a.GetOldObject()); err != nil {
			return nil, err
		}
		if a.GetSubresource() == "" && !quota.Rescoped(r.now, r.was) {
			return nil, nil //nolint:nilnil // there is none
		}
		r.used = r.was.Usage()
	}
	r.uses = r.now.Usage()
	return r, nil
}

func itemOf(kind quota.Kind, o runtime.Object) (quota.Item, error) {
	return kind.Item(func(into any) error {
		u, is := o.(*unstructured.Unstructured)
		if !is {
			return fmt.Errorf("the object is a %T", o)
		}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
	})
}

// delta is what the write uses in addition; all that it uses if the quota has not counted the object before.
func (r *request) delta(counted bool) corev1.ResourceList {
	if r.was == nil || !counted {
		return quota.Nonzero(r.uses)
	}
	return quota.Rise(r.uses, r.used)
}

// running is a quota, and what is used of it by the requests that were checked.
type running struct {
	*quota.Quota

	used corev1.ResourceList
}

// check returns what a write adds to the usage of each quota, nil where that is nothing. Errors: upstream's refusals, in
// its order (controller.go CheckRequest).
func (p *Plugin) check(r *request, quotas []*running) ([]corev1.ResourceList, error) {
	wanted, err := p.limits.scopes(r.now)
	if err != nil {
		return nil, nil //nolint:nilerr // upstream allows what it cannot match
	}
	deltas := make([]corev1.ResourceList, len(quotas))
	var covered []corev1.ResourceName
	var scopes []corev1.ScopedResourceSelectorRequirement
	concerned, changes := false, false
	for i, q := range quotas {
		for _, s := range q.Scopes {
			in, err := r.now.InScope(s)
			if err != nil {
				return nil, fmt.Errorf("error matching scopes of quota %s, err: error on matching scope %v: %w", q.Name, s, err)
			}
			if in {
				scopes = append(scopes, s)
			}
		}
		names, err := r.concerned(q)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			continue
		}
		concerned, covered = true, append(covered, names...)
		if deltas[i], err = r.against(q); err != nil {
			return nil, err
		}
		changes = changes || len(deltas[i]) > 0
	}
	if negative := negative(r.uses); len(negative) > 0 {
		return nil, upstream.NewForbidden(r, fmt.Errorf("quota usage is negative for resource(s): %s", quota.Names(negative)))
	}
	if !concerned {
		changes = len(r.delta(true)) > 0
	}
	if !changes {
		return make([]corev1.ResourceList, len(quotas)), nil
	}
	if err := p.limits.check(r, covered, wanted, scopes); err != nil {
		return nil, err
	}
	for i, q := range quotas {
		if deltas[i], err = r.fits(q, deltas[i]); err != nil {
			return nil, err
		}
	}
	return deltas, nil
}

// concerned returns what a quota limits of the write; nothing if its scopes do not select the object. Errors: the object
// does not say what the quota needs, or nobody has counted yet.
func (r *request) concerned(q *running) ([]corev1.ResourceName, error) {
	names := r.kind.Matching(q.Status.Hard)
	if selected, err := q.Selects(r.now); err != nil || !selected || len(names) == 0 {
		return nil, err
	}
	if err := r.now.Missing(names); err != nil {
		return nil, upstream.NewForbidden(r, fmt.Errorf("failed quota: %s: %w", q.Name, err))
	}
	for _, name := range names {
		if _, counted := q.Status.Used[name]; !counted {
			return nil, upstream.NewForbidden(r, fmt.Errorf("status unknown for quota: %s, resources: %s",
				q.Name, quota.Names(names)))
		}
	}
	return names, nil
}

// against returns what the write adds to what a quota counts.
func (r *request) against(q *running) (corev1.ResourceList, error) {
	counted := false
	if r.was != nil {
		var err error
		if counted, err = q.Selects(r.was); err != nil {
			return nil, err
		}
	}
	return r.delta(counted), nil
}

// fits returns what a delta adds to the usage of a quota; nil for nothing. Errors: the quota does not allow it.
func (r *request) fits(q *running, delta corev1.ResourceList) (corev1.ResourceList, error) {
	requested := quota.Only(delta, q.Status.Hard)
	if len(requested) == 0 {
		return nil, nil
	}
	if r.GetSubresource() == "status" {
		return requested, nil // what is allocated already is counted, and never refused
	}
	exceeded := corev1.ResourceList{}
	for name, more := range requested {
		sum := q.used[name].DeepCopy()
		sum.Add(more)
		if hard := q.Status.Hard[name]; sum.Cmp(hard) > 0 {
			exceeded[name] = more
		}
	}
	if len(exceeded) > 0 {
		return nil, upstream.NewForbidden(r, fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
			quota.Text(exceeded), quota.Text(quota.Only(q.used, exceeded)), quota.Text(quota.Only(q.Status.Hard, exceeded))))
	}
	return requested, nil
}

func negative(list corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name, q := range list {
		if q.Sign() < 0 {
			names = append(names, name)
		}
	}
	return names
}

// limits are resources of which nothing may be used without a quota for them.
type limits []limit

// limit is upstream's LimitedResource.
type limit struct {
	Resource      resourceName
	MatchContains []string
	MatchScopes   []corev1.ScopedResourceSelectorRequirement
}

type resourceName struct{ group, resource string }

// scopes returns those of all limits that select an object.
func (l limits) scopes(i quota.Item) ([]corev1.ScopedResourceSelectorRequirement, error) {
	var in []corev1.ScopedResourceSelectorRequirement
	for _, one := range l {
		for _, s := range one.MatchScopes {
			selects, err := i.InScope(s)
			if err != nil {
				return nil, err
			}
			if selects {
				in = append(in, s)
			}
		}
	}
	return in, nil
}

// check refuses a write that uses what is limited and has no quota for it: covered and scopes are what the quotas that
// it is charged to are for, wanted are the limited scopes that it is in.
func (l limits) check(
	r *request, covered []corev1.ResourceName, wanted, scopes []corev1.ScopedResourceSelectorRequirement,
) error {
	gr := r.GetResource().GroupResource()
	var open []string
	for _, one := range l {
		if one.Resource != (resourceName{gr.Group, gr.Resource}) {
			continue
		}
		for name, q := range r.uses {
			limited := slices.ContainsFunc(one.MatchContains, func(part string) bool {
				return strings.Contains(string(name), part)
			})
			if limited && q.Sign() > 0 && !slices.Contains(covered, name) && !slices.Contains(open, string(name)) {
				open = append(open, string(name))
			}
		}
	}
	if len(open) > 0 {
		slices.Sort(open)
		return upstream.NewForbidden(r, fmt.Errorf("insufficient quota to consume: %s", strings.Join(open, ",")))
	}
	var uncovered []corev1.ScopedResourceSelectorRequirement
	for _, s := range wanted {
		if !slices.ContainsFunc(scopes, func(of corev1.ScopedResourceSelectorRequirement) bool {
			return of.ScopeName == s.ScopeName
		}) {
			uncovered = append(uncovered, s)
		}
	}
	if len(uncovered) > 0 {
		return fmt.Errorf("insufficient quota to match these scopes: %v", uncovered)
	}
	return nil
}
