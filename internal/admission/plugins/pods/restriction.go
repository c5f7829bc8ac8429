package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/wire"
)

// RestrictionName is the name of PodTolerationRestriction.
const RestrictionName = "PodTolerationRestriction"

// The annotations of namespaces with JSON lists of tolerations: those of new pods, and those that pods may have.
const (
	defaultTolerations = "scheduler.alpha.kubernetes.io/defaultTolerations"
	listedTolerations  = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// tolerationLists is upstream's Configuration: what counts in namespaces without an annotation.
type tolerationLists struct {
	metav1.TypeMeta `json:",inline"`

	Default   []corev1.Toleration `json:"default"`
	Whitelist []corev1.Toleration `json:"whitelist"`
}

func (l *tolerationLists) check() (errs field.ErrorList) {
	at := field.NewPath("podtolerationrestriction")
	for i := range l.Default {
		errs = append(errs, podrules.Toleration(at.Child("default").Index(i), &l.Default[i])...)
	}
	for i := range l.Whitelist {
		errs = append(errs, podrules.Toleration(at.Child("whitelist").Index(i), &l.Whitelist[i])...)
	}
	return errs
}

// PodTolerationRestriction is upstream's plugin of this name: new pods get the tolerations of their namespace, those that
// are not best effort tolerate memory pressure, and pods may have only tolerations that are listed for their namespace.
// config is a Configuration of podtolerationrestriction.admission.k8s.io/v1alpha1; nil is none.
func PodTolerationRestriction(cluster plugins.Cluster, config []byte) (plugins.Plugin, error) {
	p := plugins.Plugin{
		Name:     RestrictionName,
		Concerns: []plugins.Concern{{Resource: pods, Operations: []upstream.Operation{upstream.Create, upstream.Update}}},
	}
	r := restriction{cluster: cluster}
	if config != nil {
		err := plugins.Parse(config, "podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration", &r.lists)
		if err == nil {
			err = r.lists.check().ToAggregate()
		}
		if err != nil {
			return p, fmt.Errorf("configuration of %s: %w", RestrictionName, err)
		}
	}
	p.Admit, p.Validate = r.admit, r.validate
	return p, nil
}

type restriction struct {
	cluster plugins.Cluster
	lists   tolerationLists
}

func (r restriction) admit(ctx context.Context, w *plugins.Write) error {
	spec, err := plugins.Spec(w.Object)
	if err != nil {
		return err
	}
	var extra []corev1.Toleration
	if w.GetOperation() == upstream.Create {
		if extra, err = r.of(w, defaultTolerations); err != nil {
			return err
		}
		if extra == nil {
			extra = r.lists.Default
		}
	}
	if quality(w) != string(corev1.PodQOSBestEffort) {
		extra = append(slices.Clip(extra), corev1.Toleration{
			Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	if len(extra) > 0 {
		merged, err := mergeTolerations(spec, extra)
		if err != nil {
			return err
		}
		spec["tolerations"] = merged
		w.Changed()
	}
	return r.validate(ctx, w)
}

// quality is the class by which a node evicts the pod: that of its status, if it has one.
func quality(w *plugins.Write) string {
	status, _ := w.Object.Object["status"].(map[string]any)
	if class := plugins.Text(status, "qosClass"); class != "" {
		return class
	}
	spec, _ := w.Object.Object["spec"].(map[string]any)
	return podspec.ServiceQuality(spec)
}

func (r restriction) validate(_ context.Context, w *plugins.Write) error {
	spec, _ := w.Object.Object["spec"].(map[string]any)
	sent, _ := spec["tolerations"].([]any)
	if len(sent) == 0 {
		return nil
	}
	listed, err := r.of(w, listedTolerations)
	if err != nil {
		return err
	}
	scope := "namespace"
	if listed == nil {
		listed, scope = r.lists.Whitelist, "cluster"
	}
	if len(listed) == 0 {
		return nil
	}
	if pairs := len(sent) * len(listed); pairs > mostMerged*mostMerged {
		return wire.TooLarge("%d tolerations of a pod and %d of the %s whitelist are %d pairs, limit is %d",
			len(sent), len(listed), scope, pairs, mostMerged*mostMerged)
	}
	for _, item := range sent {
		var t corev1.Toleration
		tree, _ := item.(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &t); err != nil {
			return fmt.Errorf("read a toleration: %w", err)
		}
		if !slices.ContainsFunc(listed, func(l corev1.Toleration) bool { return covers(l, t) }) {
			return wire.Unknown(fmt.Errorf( // as upstream: no 403
				"pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope))
		}
	}
	return nil
}

// of returns the tolerations in an annotation of the namespace; nil if there is none.
func (r restriction) of(w *plugins.Write, annotation string) ([]corev1.Toleration, error) {
	namespace, err := plugins.Namespace(r.cluster, w.GetNamespace())
	if err != nil {
		return nil, err
	}
	annotations, err := plugins.Annotations(namespace)
	text, has := annotations[annotation]
	if err != nil || !has {
		return nil, err
	}
	all := []corev1.Toleration{}
	if text == "" {
		return all, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, wire.Unknown(err)
	}
	return all, nil
}

// ExtendedResourceToleration is upstream's plugin of this name: pods that request resources like example.com/gpu tolerate
// the taint of this name, with which such nodes are kept for them.
func ExtendedResourceToleration() plugins.Plugin {
	return plugins.Plugin{
		Name:     "ExtendedResourceToleration",
		Concerns: []plugins.Concern{{Resource: pods, Operations: []upstream.Operation{upstream.Create, upstream.Update}}},
		Admit: func(_ context.Context, w *plugins.Write) error {
			spec, err := plugins.Spec(w.Object)
			if err != nil {
				return err
			}
			names := map[string]struct{}{}
			for _, list := range []string{"containers", "initContainers"} {
				items, _ := spec[list].([]any)
				for _, item := range items {
					c, _ := item.(map[string]any)
					resources, _ := c["resources"].(map[string]any)
					requests, _ := resources["requests"].(map[string]any)
					for name := range requests {
						if check.IsExtendedResource(name) {
							names[name] = struct{}{}
						}
					}
				}
			}
			for _, name := range slices.Sorted(maps.Keys(names)) {
				if tolerate(spec, name) {
					w.Changed()
				}
			}
			return nil
		},
	}
}

// tolerate makes a pod tolerate that nothing is scheduled because of a taint, and reports whether it did not before. A
// toleration with the same key, operator, effect and no value is replaced (pkg/apis/core/helper
// AddOrUpdateTolerationInPod).
func tolerate(spec map[string]any, key string) bool {
	wanted := map[string]any{
		"key": key, "operator": string(corev1.TolerationOpExists), "effect": string(corev1.TaintEffectNoSchedule),
	}
	all, _ := spec["tolerations"].([]any)
	for i, item := range all {
		t, _ := item.(map[string]any)
		if plugins.Text(t, "key") != key || t["operator"] != wanted["operator"] || t["effect"] != wanted["effect"] ||
			plugins.Text(t, "value") != "" {
			continue
		}
		if _, limited := t["tolerationSeconds"]; !limited {
			return false
		}
		all = slices.Clone(all)
		all[i], spec["tolerations"] = wanted, all
		return true
	}
	spec["tolerations"] = append(slices.Clip(all), wanted)
	return true
}
