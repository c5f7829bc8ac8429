package protection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// manager is the field manager of what a Controller writes; in a cluster it is part of kube-controller-manager.
const manager = "kube-controller-manager"

// item is an object and where it is.
type item struct {
	target kinds.Target
	object *wire.Object
}

// handle does what is to be done about an object. Errors: 409 when it has changed meanwhile, and those of the verbs.
func (c *Controller) handle(ctx context.Context, key wire.Key) error {
	resource, served := c.cfg.Live.Load().Storage(c.of)
	if !served {
		return nil
	}
	t := kinds.Target{Resource: resource, Namespace: key.Namespace, Name: key.Name, AsStored: true, Caller: c.caller()}
	o, err := c.verbs.Get(ctx, t, "0")
	if isReason(err, metav1.StatusReasonNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	i := item{t, o}
	if c.before != nil {
		if written, err := c.before(ctx, i); written || err != nil {
			return err // the change leads back here
		}
	}
	switch has := c.has(o); {
	case !o.Deleting() && !has:
		return c.patch(ctx, i, "", map[string]any{"metadata": map[string]any{"finalizers": append(o.Finalizers(), c.finalizer)}})
	case o.Deleting() && has:
		used, err := c.used(ctx, o, c.inUse)
		if used || err != nil {
			return err
		}
		left := slices.DeleteFunc(o.Finalizers(), func(f string) bool { return f == c.finalizer })
		return c.patch(ctx, i, "", map[string]any{"metadata": map[string]any{"finalizers": left}})
	}
	return nil
}

// used reports whether an object is used in a state that has all that was written before the call, by whichever server.
// Upstream lists pods for it. Errors: an object that may use it cannot be read; the store cannot be asked.
func (c *Controller) used(ctx context.Context, o *wire.Object, inUse func(*wire.Object) (bool, error)) (bool, error) {
	used, err := inUse(o)
	if used || err != nil {
		return used, err
	}
	all := c.asks(o.Key())
	for _, a := range all {
		if err := c.verbs.Latest(ctx, a.of, a.namespace); err != nil {
			return false, fmt.Errorf("look whether %s use %s %s: %w", a.of, c.of, o.Key(), err)
		}
	}
	if len(all) == 0 {
		return false, nil
	}
	return inUse(o)
}

// patch changes an object as it was read, or a subresource of it; a later version is 409.
func (c *Controller) patch(ctx context.Context, i item, subresource string, change map[string]any) error {
	o := i.object
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"] = o.UID(), o.ResourceVersion().String()
	change["metadata"] = metadata
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode a patch of %s %s: %w", c.of, o.Key(), err)
	}
	i.target.Subresource = subresource
	_, err = c.verbs.Patch(ctx, i.target, wire.Patch{Type: types.MergePatchType, Body: body}, metav1.PatchOptions{
		FieldManager: manager,
	})
	switch {
	case isReason(err, metav1.StatusReasonNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("write the protection of %s %s: %w", c.of, o.Key(), err)
	}
	c.writes.Add(1)
	c.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "wrote the protection of an object",
		slog.String("resource", c.of.String()), slog.String("object", o.Key().String()))
	return nil
}

// claimIsUsed reports whether pods keep a claim, as far as the server knows.
func (p *Protection) claimIsUsed(o *wire.Object) (bool, error) {
	owner := ownerOf(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.users.claims[o.Key()].holds(owner), nil
}

// claimIsReferred reports whether pods that have not ended refer to a claim, as far as the server knows.
func (p *Protection) claimIsReferred(o *wire.Object) (bool, error) {
	owner := ownerOf(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.users.claims[o.Key()].refers(owner), nil
}

// classIsUsed reports whether claims or volumes name a class, as far as the server knows.
func (p *Protection) classIsUsed(o *wire.Object) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.names.count[o.Key().Name] > 0, nil
}

// isBound reports whether a volume is used.
func isBound(o *wire.Object) (bool, error) {
	var is struct {
		Status struct {
			Phase corev1.PersistentVolumePhase `json:"phase"`
		} `json:"status"`
	}
	if err := json.Unmarshal(o.JSON(), &is); err != nil {
		return false, fmt.Errorf("decode the volume %s: %w", o.Key(), err)
	}
	return is.Status.Phase == corev1.VolumeBound, nil
}

// ownerOf returns the uid of an object's controller, "" if it has none.
func ownerOf(o *wire.Object) types.UID {
	if !o.Owned() {
		return ""
	}
	for _, ref := range o.OwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return ref.UID
		}
	}
	return ""
}

// noteUse writes the condition Unused of a bound claim that is not under deletion, if it is another one, and reports
// whether it has written (pvcprotection updateUnusedCondition, the feature PersistentVolumeClaimUnusedSinceTime).
func (p *Protection) noteUse(ctx context.Context, i item) (written bool, err error) {
	if i.object.Deleting() {
		return false, nil
	}
	var claim corev1.PersistentVolumeClaim
	if err := json.Unmarshal(i.object.JSON(), &claim); err != nil {
		return false, fmt.Errorf("decode the claim %s: %w", i.object.Key(), err)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return false, nil
	}
	all := claim.Status.Conditions
	at := slices.IndexFunc(all, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimUnused
	})
	says := func(used bool) bool { return at >= 0 && (all[at].Status == corev1.ConditionTrue) == !used }
	if used, err := p.claimIsReferred(i.object); says(used) || err != nil {
		return false, err
	}
	used, err := p.Claims.used(ctx, i.object, p.claimIsReferred)
	if says(used) || err != nil {
		return false, err
	}
	now := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: "NoPodsUsingPVC", Message: "No pods are currently referencing this PVC",
	}
	if used {
		now.Status, now.Reason, now.Message = corev1.ConditionFalse, "PodUsingPVC", "A pod is currently referencing this PVC"
	}
	if at < 0 {
		all = append(all, now)
	} else {
		all[at] = now
	}
	return true, p.Claims.patch(ctx, i, "status", map[string]any{"status": map[string]any{"conditions": all}})
}

// isReason reports whether err is a Status with a reason.
func isReason(err error, reason metav1.StatusReason) bool {
	e, is := errors.AsType[*wire.StatusError](err)
	return is && e.ErrStatus.Reason == reason
}
