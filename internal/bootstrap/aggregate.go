package bootstrap

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// roles are the cluster roles in their latest state: an aggregated role has the rules
// of all roles that its selectors match (kubernetes
// pkg/controller/clusterroleaggregation).
type roles struct {
	// mu guards the fields below.
	mu    sync.Mutex
	known map[string]*rbacv1.ClusterRole
	// whole says that known has all roles: before, no role is aggregated.
	whole bool
}

// forget is called before the watch of the roles begins again.
func (r *roles) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.whole = map[string]*rbacv1.ClusterRole{}, false
}

// seen handles an event, and returns the roles that may have to change.
func (r *roles) seen(e wire.WatchEvent) []task {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch role := (&rbacv1.ClusterRole{}); {
	case e.Type == kube.InitialEventsEnd:
		r.whole = true
	case e.Type == kube.Deleted:
		delete(r.known, e.Object.Key().Name)
	case json.Unmarshal(e.Object.JSON(), role) == nil: // the registry has decoded it before
		r.known[role.Name] = role
	}
	if !r.whole {
		return nil
	}
	var tasks []task
	for name, other := range r.known {
		if other.AggregationRule != nil {
			tasks = append(tasks, task{aggregate, name})
		}
	}
	return tasks
}

// rules returns the rules of an aggregated role; unknown until all roles were seen.
func (r *roles) rules(name string, from []metav1.LabelSelector) (all []rbacv1.PolicyRule, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.whole {
		return nil, false
	}
	for _, from := range from {
		selector, err := metav1.LabelSelectorAsSelector(&from)
		if err != nil {
			continue // it selects nothing
		}
		for _, other := range slices.Sorted(maps.Keys(r.known)) {
			if other == name || !selector.Matches(labels.Set(r.known[other].Labels)) {
				continue
			}
			for _, rule := range r.known[other].Rules {
				if !contains(all, rule) {
					all = append(all, rule)
				}
			}
		}
	}
	return all, true
}

// aggregate sets the rules of an aggregated role.
func (c *Controller) aggregate(ctx context.Context, name string) error {
	err := c.ensure(ctx, object{
		resource: rbac("clusterroles"), name: name,
		correct: correction(func(there *rbacv1.ClusterRole) (bool, error) {
			if there.AggregationRule == nil {
				return false, nil
			}
			rules, known := c.roles.rules(name, there.AggregationRule.ClusterRoleSelectors)
			if !known || equality.Semantic.DeepEqual(there.Rules, rules) {
				return false, nil
			}
			there.Rules = rules
			return true, nil
		}),
	})
	if isNotFound(err) {
		return nil // it was deleted, and is not recreated
	}
	return err
}
