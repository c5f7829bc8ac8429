// Package quotas is the admission plugin ResourceQuota of kube-apiserver: a write that would use more of a namespace than
// its ResourceQuotas allow is refused, and what it uses is written to their status before the object is stored.
//
// A [Plugin] charges writes. Those of one namespace that wait at the same time are checked together, one after the
// other, and written with one write for each quota, on condition that the quota is still the one that was read: so
// nothing is used twice, also by other servers over the same store. What was charged for a write that has no effect is
// given back, in the same way.
package quotas

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/quota"
	"github.com/gapless-io/gapless/internal/wire"
)

// Name is the name of the plugin.
const Name = "ResourceQuota"

// Cluster reads objects, and writes the status of quotas. Registry is one.
type Cluster interface {
	plugins.Cluster
	// Latest blocks until Find has everything of a resource that was acknowledged before, by whichever server.
	Latest(ctx context.Context, gr kinds.GroupResource, namespace string) error
	// ChangeStatus changes the status of an object by do, which is called again after a conflict.
	ChangeStatus(
		ctx context.Context, gr kinds.GroupResource, key wire.Key, manager string,
		do func(u *unstructured.Unstructured, current *wire.Object) error,
	) (*wire.Object, error)
}

// Plugin is an admission.Charger. It is safe for concurrent use.
type Plugin struct {
	cluster Cluster
	table   *quota.Table
	classes *quota.DeviceClasses
	ledger  *quota.Ledger
	limits  limits
	lines   lines
	metrics *metrics
}

var _ admission.Charger = (*Plugin)(nil)

// New returns the plugin with a configuration of upstream's kind ResourceQuotaConfiguration, in YAML or JSON; nil: none.
// Errors: the configuration is wrong.
func New(config []byte, cluster Cluster) (*Plugin, error) {
	limited, err := readConfiguration(config)
	if err != nil {
		return nil, fmt.Errorf("configuration of the admission plugin %s: %w", Name, err)
	}
	p := &Plugin{
		cluster: cluster, table: quota.NewTable(), ledger: quota.NewLedger(), limits: limited,
		lines: lines{of: map[string]*line{}}, metrics: newMetrics(),
	}
	var find quota.Lookup
	if cluster != nil {
		find = cluster.Find
	}
	p.classes = quota.NewDeviceClasses(find)
	p.table.Deleted = p.ledger.Forget
	return p, nil
}

// Table returns the quotas that the plugin knows: it follows them.
func (p *Plugin) Table() *quota.Table { return p.table }

// Classes returns the DeviceClasses that the plugin knows: it follows them.
func (p *Plugin) Classes() *quota.DeviceClasses { return p.classes }

// Ledger returns what the plugin has charged for objects that are not stored yet.
func (p *Plugin) Ledger() *quota.Ledger { return p.ledger }

// Concerns implements admission.Charger. Where a namespace has no quota it is one lookup.
func (p *Plugin) Concerns(t kinds.Target, op upstream.Operation) bool {
	if t.Namespace == "" || !t.Resource.Namespaced {
		return false
	}
	gr := t.Resource.GR()
	if !handles(gr, t.Subresource, op) {
		return false
	}
	return len(p.limits) > 0 || p.table.Limits(t.Namespace, gr, p.classes) ||
		p.cluster.UnknownOf(quota.Quotas(), t.Namespace, "") != nil
}

// handles reports whether an operation may change what objects of a resource use.
func handles(gr kinds.GroupResource, subresource string, op upstream.Operation) bool {
	switch op {
	case upstream.Create:
		return subresource == ""
	case upstream.Update:
		return quota.Updates(gr, subresource)
	case upstream.Delete, upstream.Connect:
	}
	return false
}

// timeout is how long a write waits to be charged: controller.go Evaluate of upstream's plugin.
const timeout = 10 * time.Second

// Charge implements admission.Charger.
func (p *Plugin) Charge(
	ctx context.Context, a upstream.Attributes,
) (settle func(ctx context.Context, o admission.Outcome), err error) {
	began, charged := time.Now(), false
	defer func() { p.metrics.charged(began, charged, err) }()
	if err := p.cluster.UnknownOf(quota.Quotas(), a.GetNamespace(), ""); err != nil {
		return nil, fmt.Errorf("it is not known which quotas limit this write: %w", err)
	}
	r, err := p.request(a)
	if err != nil || r == nil {
		return nil, err
	}
	limited, stop := context.WithTimeoutCause(ctx, timeout,
		apierrors.NewInternalError(errors.New("resource quota evaluation timed out")))
	defer stop()
	passed := false
	defer func() {
		if !passed { // what was charged before a panic
			p.doubt(r.charges)
		}
	}()
	if err := p.lines.pass(limited, a.GetNamespace(), &job{request: r, give: nil}, p.serve); err != nil {
		return nil, err
	}
	passed = true
	if len(r.charges) == 0 {
		return nil, nil
	}
	charged = true
	return func(ctx context.Context, o admission.Outcome) { p.settle(ctx, a.GetNamespace(), r.charges, o) }, nil
}

// settle ends the charges of a write.
func (p *Plugin) settle(ctx context.Context, namespace string, charges []charge, o admission.Outcome) {
	p.metrics.settled(o)
	switch o {
	case admission.Refused:
		limited, stop := context.WithTimeout(ctx, timeout)
		defer stop()
		given := false
		defer func() {
			if !given { // also after a panic
				p.doubt(charges)
			}
		}()
		given = p.lines.pass(limited, namespace, &job{give: charges}, p.serve) == nil
	case admission.Doubtful:
		p.doubt(charges)
	case admission.Stored:
		for _, c := range charges {
			p.ledger.Release(c.quota, c.used)
		}
	}
}

// doubt ends charges of which it is not known whether they count: who counts the objects finds out.
func (p *Plugin) doubt(charges []charge) {
	for _, c := range charges {
		p.ledger.Doubt(c.quota, c.used)
	}
}

// charge is what was charged to a quota for one write.
type charge struct {
	quota wire.Key
	used  corev1.ResourceList
	epoch int64 // of the ledger
	// recount says that it could not be given back, since others may have counted without it: it is counted again once
	// it is no longer pending.
	recount bool
}
