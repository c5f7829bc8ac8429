// Package eviction deletes pods as far as their disruption budgets allow it.
//
// A [Request] is one eviction of a pod. The rules and error texts are those of kubernetes
// pkg/registry/core/pod/storage/eviction.go.
package eviction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Verbs is what an eviction needs of a registry.
type Verbs interface {
	Get(ctx context.Context, t kinds.Target, rv string) (*wire.Object, error)
	List(ctx context.Context, t kinds.Target, o wire.ListOptions) (*wire.List, error)
	Delete(ctx context.Context, t kinds.Target, o metav1.DeleteOptions) (wire.Written, error)
	// Change updates an object, which p allows, by change, which it calls again after a
	// conflict, and returns the object as it is then. It returns an error of change; others
	// are 404, and 409 for the preconditions.
	Change(ctx context.Context, t kinds.Target, p *metav1.Preconditions,
		change func(u *unstructured.Unstructured) error) (*wire.Object, error)
	// Budgets is the resource of disruption budgets; nil if there is none.
	Budgets() *kinds.Resource
}

// Request is one eviction.
type Request struct {
	Pod      kinds.Target
	Eviction *unstructured.Unstructured // a policy/v1 Eviction
	DryRun   []string
}

const (
	// attempts is how often an eviction begins again because the pod has changed meanwhile
	// (upstream's EvictionsRetry, which also waits between attempts).
	attempts = 20
	// maxDisrupted is how many evicted pods a budget may list that its controller has not
	// processed yet.
	maxDisrupted = 2000
)

// Evict deletes a pod. Errors: 404, 409 for preconditions, 429 when its budget does
// not allow it, 500 when it has several.
func Evict(ctx context.Context, v Verbs, r Request) error {
	o, err := r.options()
	if err != nil {
		return err
	}
	r.Pod.Subresource = ""
	free := o.Preconditions == nil || o.Preconditions.ResourceVersion == nil
	for attempt := 1; ; attempt++ {
		pod, err := find(ctx, v, r.Pod)
		if err != nil {
			return err
		}
		if !ignoresBudgets(pod) {
			return r.evict(ctx, v, pod, o)
		}
		err = r.delete(ctx, v, o, pod, free && pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil)
		if !isConflict(err) || !free || attempt == attempts {
			return err
		}
	}
}

// Check refuses an Eviction whose options are for objects that cannot be read: 422.
func Check(pod kinds.Target, sent *unstructured.Unstructured) error {
	const option = "ignoreStoreReadErrorWithClusterBreakingPotential"
	if unsafe, _, err := unstructured.NestedBool(sent.Object, "deleteOptions", option); err != nil || !unsafe {
		return nil //nolint:nilerr // the options are read later
	}
	return wire.Invalid(policyv1.SchemeGroupVersion.WithKind("Eviction").GroupKind(), pod.Name, field.ErrorList{
		field.Invalid(field.NewPath("deleteOptions", option), true,
			"can not be set for pod eviction, try after removing the option"),
	})
}

// options returns the options of the deletion; the query may ask for a dry run too.
func (r Request) options() (metav1.DeleteOptions, error) {
	var e policyv1.Eviction
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Eviction.Object, &e); err != nil {
		return metav1.DeleteOptions{}, wire.BadRequest("read the Eviction: %v", err)
	}
	var o metav1.DeleteOptions
	if e.DeleteOptions != nil {
		o = *e.DeleteOptions
	}
	if len(o.DryRun) > 0 && len(r.DryRun) > 0 && !reflect.DeepEqual(o.DryRun, r.DryRun) {
		return o, wire.BadRequest("Non-matching dry-run options in request and content: %v and %v", r.DryRun, o.DryRun)
	}
	if len(o.DryRun) == 0 {
		o.DryRun = r.DryRun
	}
	return o, nil
}

func find(ctx context.Context, v Verbs, t kinds.Target) (*corev1.Pod, error) {
	o, err := v.Get(ctx, t, "")
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(o.JSON(), pod); err != nil {
		return nil, wire.Internal(fmt.Errorf("decode the pod: %w", err))
	}
	return pod, nil
}

// ignoresBudgets reports whether deleting a pod disrupts nothing.
func ignoresBudgets(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodPending ||
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// delete says in the status of the pod that it is evicted, and deletes it; exactly: only if it
// has not changed since it was read (upstream's addConditionAndDeletePod).
func (r Request) delete(ctx context.Context, v Verbs, o metav1.DeleteOptions, pod *corev1.Pod, exactly bool) error {
	if exactly {
		o.Preconditions = conditions(o.Preconditions, pod.ResourceVersion)
	}
	if len(o.DryRun) == 0 {
		t := r.Pod
		t.Subresource = "status"
		evicted, err := v.Change(ctx, t, o.Preconditions, disrupt)
		if err != nil {
			return err
		}
		if o.Preconditions != nil && o.Preconditions.ResourceVersion != nil {
			// The change is ours.
			o.Preconditions = conditions(o.Preconditions, evicted.ResourceVersion().String())
		}
	}
	_, err := v.Delete(ctx, r.Pod, o)
	return err
}

// disrupt sets the condition of a pod by which job controllers know a disruption from a failure.
func disrupt(u *unstructured.Unstructured) error {
	condition := map[string]any{
		"type": string(corev1.DisruptionTarget), "status": string(corev1.ConditionTrue), "reason": "EvictionByEvictionAPI",
		"message": "Eviction API: evicting", "lastProbeTime": nil, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}
	all, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return wire.Internal(fmt.Errorf("read the conditions of the pod: %w", err))
	}
	i := slices.IndexFunc(all, func(c any) bool {
		was, is := c.(map[string]any)
		return is && was["type"] == condition["type"]
	})
	if i < 0 {
		all = append(all, condition)
	} else {
		was, _ := all[i].(map[string]any)
		if was["status"] == condition["status"] {
			condition["lastTransitionTime"] = was["lastTransitionTime"]
		}
		all[i] = condition
	}
	if err := unstructured.SetNestedSlice(u.Object, all, "status", "conditions"); err != nil {
		return wire.Internal(fmt.Errorf("set the conditions of the pod: %w", err))
	}
	return nil
}

// conditions adds a resourceVersion to preconditions.
func conditions(p *metav1.Preconditions, rv string) *metav1.Preconditions {
	all := metav1.Preconditions{}
	if p != nil {
		all = *p
	}
	all.ResourceVersion = &rv
	return &all
}

// evict checks the budget, and deletes the pod.
func (r Request) evict(ctx context.Context, v Verbs, pod *corev1.Pod, o metav1.DeleteOptions) error {
	budget, err := budgetOf(ctx, v, r.Pod, pod)
	if err != nil {
		return err
	}
	free := o.Preconditions == nil || o.Preconditions.ResourceVersion == nil
	exactly := false
	if budget != nil {
		// A pod that is not ready is not one of the healthy pods.
		s, policy := budget.Status, budget.Spec.UnhealthyPodEvictionPolicy
		exactly = !ready(pod) && (policy != nil && *policy == policyv1.AlwaysAllow ||
			s.CurrentHealthy >= s.DesiredHealthy && s.DesiredHealthy > 0)
		if !exactly {
			if err := r.spend(ctx, v, budget.Name, len(o.DryRun) > 0); err != nil {
				return err
			}
		}
	}
	err = r.delete(ctx, v, o, pod, exactly && free)
	if exactly && free && isConflict(err) {
		return refused(10*time.Second, beingProcessed(budget.Name))
	}
	return err
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// budgetOf returns the budget whose selector matches the pod, nil if there is none.
func budgetOf(ctx context.Context, v Verbs, t kinds.Target, pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	resource := v.Budgets()
	if resource == nil {
		return nil, nil // no budget is no error
	}
	list, err := v.List(ctx, kinds.Target{Resource: resource, Namespace: t.Namespace},
		wire.ListOptions{Labels: labels.Everything(), Fields: fields.Everything()})
	if err != nil {
		return nil, err
	}
	var found *policyv1.PodDisruptionBudget
	for o, err := range list.Items {
		if err != nil {
			return nil, err
		}
		budget := &policyv1.PodDisruptionBudget{}
		if err := json.Unmarshal(o.JSON(), budget); err != nil {
			return nil, wire.Internal(fmt.Errorf("decode the budget: %w", err))
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if found != nil {
			return nil, wire.Internal(errors.New("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")) //nolint:staticcheck,revive // upstream's words
		}
		found = budget
	}
	return found, nil
}

// spend subtracts one disruption from a budget, and records the pod for the budget's
// controller. Errors: 429 when no disruption is allowed.
func (r Request) spend(ctx context.Context, v Verbs, name string, dryRun bool) error {
	t := kinds.Target{Resource: v.Budgets(), Namespace: r.Pod.Namespace, Name: name, Subresource: "status"}
	errDry := errors.New("dry run")
	_, err := v.Change(ctx, t, nil, func(u *unstructured.Unstructured) error {
		budget := &policyv1.PodDisruptionBudget{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, budget); err != nil {
			return wire.Internal(fmt.Errorf("decode the budget: %w", err))
		}
		if err := decrement(budget, r.Pod.Name); err != nil {
			return err
		}
		if dryRun {
			return errDry
		}
		status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&budget.Status)
		if err != nil {
			return wire.Internal(fmt.Errorf("encode the budget: %w", err))
		}
		u.Object["status"] = status
		return nil
	})
	if errors.Is(err, errDry) {
		return nil
	}
	return err
}

// decrement subtracts one from the allowed disruptions.
func decrement(budget *policyv1.PodDisruptionBudget, pod string) error {
	status := &budget.Status
	forbidden := func(why string) error {
		return wire.Forbidden(kinds.GroupResource{Group: "policy", Resource: "poddisruptionbudget"}, budget.Name, why)
	}
	switch {
	case status.ObservedGeneration < budget.Generation:
		return refused(10*time.Second, beingProcessed(budget.Name))
	case status.DisruptionsAllowed < 0:
		return forbidden("pdb disruptions allowed is negative")
	case len(status.DisruptedPods) > maxDisrupted:
		return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
	case status.DisruptionsAllowed == 0:
		return refused(0, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			budget.Name, status.DesiredHealthy, status.CurrentHealthy))
	}
	now := metav1.Now()
	if status.DisruptionsAllowed--; status.DisruptionsAllowed == 0 {
		setCondition(budget, now)
	}
	if status.DisruptedPods == nil {
		status.DisruptedPods = map[string]metav1.Time{}
	}
	status.DisruptedPods[pod] = now
	return nil
}

// setCondition sets the condition that no disruption is allowed (component-helpers
// apps/poddisruptionbudget UpdateDisruptionAllowedCondition).
func setCondition(budget *policyv1.PodDisruptionBudget, now metav1.Time) {
	condition := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
		ObservedGeneration: budget.Status.ObservedGeneration, LastTransitionTime: now,
	}
	for i, was := range budget.Status.Conditions {
		if was.Type != condition.Type {
			continue
		}
		if was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
		budget.Status.Conditions[i] = condition
		return
	}
	budget.Status.Conditions = append(budget.Status.Conditions, condition)
}

func beingProcessed(budget string) string {
	return fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget)
}

// refused is 429 with the cause by which clients know it.
func refused(retryAfter time.Duration, why string) error {
	e := wire.TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	if e.ErrStatus.Details == nil {
		e.ErrStatus.Details = &metav1.StatusDetails{}
	}
	e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: why,
	})
	return e
}

func isConflict(err error) bool {
	e, is := errors.AsType[*wire.StatusError](err)
	return is && e.ErrStatus.Code == http.StatusConflict && e.ErrStatus.Reason == metav1.StatusReasonConflict
}
