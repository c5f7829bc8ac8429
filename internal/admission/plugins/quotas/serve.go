package quotas

import (
	"context"
	"errors"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/quota"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// manager manages the usage of quotas: upstream's plugin writes it as kube-apiserver.
const manager = "kube-apiserver"

// errInterrupted is the error of jobs whose server has panicked.
var errInterrupted = errors.New("the check of quotas was interrupted")

// serve charges the requests of jobs of one namespace, in their order, and gives back what others have been charged.
func (p *Plugin) serve(ctx context.Context, namespace string, batch []*job) {
	var giving, asking []*job
	for _, j := range batch {
		j.err = errInterrupted
		if j.request == nil {
			giving = append(giving, j)
		} else {
			asking = append(asking, j)
		}
	}
	asking = p.choose(ctx, namespace, asking)
	quotas, err := p.table.In(namespace)
	if err != nil {
		fail(asking, err)
		fail(giving, err)
		return
	}
	for _, q := range quotas {
		w := &writing{plugin: p, key: wire.Key{Namespace: namespace, Name: q.Name}, known: q, asking: asking, giving: giving}
		asking = w.write(ctx)
	}
	for _, j := range asking {
		j.err = nil
	}
	p.takeBack(ctx, batch)
	for _, j := range giving {
		if !errors.Is(j.err, errInterrupted) {
			continue // a write has failed: who gives back learns that, and doubts
		}
		j.err = nil
		for _, c := range j.give {
			p.ledger.Release(c.quota, c.used)
			if c.recount {
				p.ledger.Recount(c.quota, 0)
			}
		}
	}
}

func fail(jobs []*job, err error) {
	for _, j := range jobs {
		j.err = err
	}
}

// choose answers those requests that no quota charges, or that are refused, by what is known, and returns the others.
// What is known may be behind what other servers have written: so a refusal is checked again with the latest state.
func (p *Plugin) choose(ctx context.Context, namespace string, asking []*job) []*job {
	left, refused := p.chooseOnce(namespace, asking)
	if !refused {
		return left
	}
	if err := p.cluster.Latest(ctx, quota.Quotas(), namespace); err != nil {
		fail(asking, err)
		return nil
	}
	left, _ = p.chooseOnce(namespace, asking)
	return left
}

func (p *Plugin) chooseOnce(namespace string, asking []*job) (left []*job, refused bool) {
	quotas, err := p.table.In(namespace)
	if err != nil {
		fail(asking, err)
		return nil, true
	}
	all := make([]*running, len(quotas))
	for i, q := range quotas {
		all[i] = &running{Quota: q, used: quota.Sum(nil, q.Status.Used)}
	}
	for _, j := range asking {
		deltas, err := p.check(j.request, all)
		if err != nil {
			j.err, refused = err, true
			continue
		}
		j.err = nil
		if j.request.IsDryRun() {
			continue
		}
		charged := false
		for i, delta := range deltas {
			if len(delta) > 0 {
				charged = true
				quota.Add(all[i].used, delta)
			}
		}
		if charged {
			j.err = errInterrupted
			left = append(left, j)
		}
	}
	return left, refused
}

// takeBack gives back what refused requests were charged by the quotas before the one that has refused them.
func (p *Plugin) takeBack(ctx context.Context, batch []*job) {
	back := map[wire.Key][]*job{}
	for _, j := range batch {
		if j.request == nil || j.err == nil {
			continue
		}
		for _, c := range j.request.charges {
			back[c.quota] = append(back[c.quota], &job{give: []charge{c}})
		}
		j.request.charges = nil
	}
	for key, giving := range back {
		fail(giving, errInterrupted)
		w := &writing{plugin: p, key: key, giving: giving}
		w.write(ctx)
		for _, j := range giving {
			switch c := j.give[0]; {
			case !errors.Is(j.err, errInterrupted):
				p.ledger.Doubt(key, c.used)
			case c.recount:
				p.ledger.Release(key, c.used)
				p.ledger.Recount(key, 0)
			default:
				p.ledger.Release(key, c.used)
			}
		}
	}
}

// writing is one write of a quota's status, for all jobs of a batch.
type writing struct {
	plugin *Plugin
	key    wire.Key
	known  *quota.Quota // what is known of it; nil: nothing
	asking []*job
	giving []*job

	// Since the last attempt:
	from    kube.ResourceVersion
	charged corev1.ResourceList // what is pending of this write
	deltas  []corev1.ResourceList
	errs    []error
	tries   int
}

// write charges the quota, gives back, and returns the requests that it has not refused.
func (w *writing) write(ctx context.Context) (left []*job) {
	if len(w.asking) == 0 && !w.gives() {
		return nil
	}
	end, err := w.plugin.ledger.Turn(ctx, w.key)
	if err != nil {
		w.fail(err)
		return nil
	}
	defer end()
	ledger := w.plugin.ledger
	done := false
	defer func() {
		if !done { // also after a panic
			ledger.Release(w.key, w.charged)
		}
	}()
	o, err := w.plugin.cluster.ChangeStatus(ctx, quota.Quotas(), w.key, manager, w.attempt)
	if isMissing(err) {
		return w.asking // who deletes a quota takes its limit away
	}
	if err != nil {
		ledger.Recount(w.key, 0) // it may be written all the same
		if !hasStatus(err) {
			done = true
			ledger.Doubt(w.key, w.charged)
		}
		w.fail(err)
		return nil
	}
	done = true
	w.plugin.metrics.writes.Inc()
	epoch := ledger.Wrote(w.key, w.from, o.ResourceVersion())
	for i, j := range w.asking {
		if w.errs[i] != nil {
			j.err = w.errs[i]
			continue
		}
		if len(w.deltas[i]) > 0 {
			j.request.charges = append(j.request.charges, charge{quota: w.key, used: w.deltas[i], epoch: epoch})
		}
		left = append(left, j)
	}
	return left
}

// fail ends the requests, and what was to be given back to the quota.
func (w *writing) fail(err error) {
	fail(w.asking, err)
	for _, j := range w.giving {
		if slices.ContainsFunc(j.give, func(c charge) bool { return c.quota == w.key }) {
			j.err = err
		}
	}
}

// gives reports whether something is to be given back to the quota.
func (w *writing) gives() bool {
	for _, j := range w.giving {
		for _, c := range j.give {
			if c.quota == w.key {
				return true
			}
		}
	}
	return false
}

// attempt makes of the quota as it is now what it is after the charges.
func (w *writing) attempt(u *unstructured.Unstructured, current *wire.Object) error {
	if w.tries++; w.tries > 1 {
		w.plugin.metrics.conflicts.Inc()
	}
	ledger := w.plugin.ledger
	ledger.Release(w.key, w.charged)
	w.from, w.charged = current.ResourceVersion(), corev1.ResourceList{}
	w.deltas, w.errs = make([]corev1.ResourceList, len(w.asking)), make([]error, len(w.asking))
	q := w.known
	if q == nil || q.Stored.ResourceVersion() != w.from {
		var err error
		if q, err = quota.Read(current); err != nil {
			return err
		}
	}
	now := &running{Quota: q, used: quota.Sum(nil, q.Status.Used)}
	w.giveBack(now)
	for i, j := range w.asking {
		if w.deltas[i], w.errs[i] = w.check(j.request, now); w.errs[i] == nil {
			quota.Add(now.used, w.deltas[i])
			quota.Add(w.charged, w.deltas[i])
		}
	}
	ledger.Charge(w.key, w.charged) // before it is written
	if quota.Equal(now.used, q.Status.Used) {
		return nil
	}
	return unstructured.SetNestedMap(u.Object, quota.Tree(now.used), "status", "used")
}

// giveBack takes from what is used what was charged for writes without effect, unless others may have counted since.
func (w *writing) giveBack(now *running) {
	for _, j := range w.giving {
		for i := range j.give {
			c := &j.give[i]
			if c.quota != w.key {
				continue
			}
			if c.recount = !w.plugin.ledger.Seen(c.quota, c.epoch, w.from); !c.recount {
				quota.Take(now.used, c.used)
			}
		}
	}
}

// check is Plugin.check for this quota, which may be another one than the one that was known.
func (w *writing) check(r *request, q *running) (corev1.ResourceList, error) {
	names, err := r.concerned(q)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	delta, err := r.against(q)
	if err != nil {
		return nil, err
	}
	return r.fits(q, delta)
}

func isMissing(err error) bool {
	status, is := errors.AsType[*wire.StatusError](err)
	return is && status.ErrStatus.Reason == metav1.StatusReasonNotFound
}

// hasStatus reports whether an error is an answer of the API, so that nothing was written, or is written later.
func hasStatus(err error) bool {
	status, is := errors.AsType[*wire.StatusError](err)
	return is && status.ErrStatus.Code != http.StatusInternalServerError
}
