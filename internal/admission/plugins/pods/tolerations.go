package pods

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/wire"
)

// mostMerged bounds tolerations of which each is compared with each, by a write that cannot be ended meanwhile.
const mostMerged = 1000

// DefaultTolerationSeconds is upstream's plugin of this name: pods that say nothing of nodes that are
// not ready, or cannot be reached, stay there for so many seconds.
func DefaultTolerationSeconds(notReady, unreachable int64) plugins.Plugin {
	return plugins.Plugin{
		Name:     "DefaultTolerationSeconds",
		Concerns: []plugins.Concern{{Resource: pods, Operations: []upstream.Operation{upstream.Create, upstream.Update}}},
		Admit: func(_ context.Context, w *plugins.Write) error {
			spec, err := plugins.Spec(w.Object)
			if err != nil {
				return err
			}
			sent, _ := spec["tolerations"].([]any)
			all := sent
			for _, of := range []struct {
				key  string
				stay int64
			}{{corev1.TaintNodeNotReady, notReady}, {corev1.TaintNodeUnreachable, unreachable}} {
				if !tolerated(sent, of.key) {
					all = append(all, map[string]any{
						"key": of.key, "operator": string(corev1.TolerationOpExists),
						"effect": string(corev1.TaintEffectNoExecute), "tolerationSeconds": of.stay,
					})
				}
			}
			if len(all) > len(sent) {
				spec["tolerations"] = all
			}
			return nil
		},
	}
}

// tolerated reports whether a toleration is about a taint that evicts.
func tolerated(tolerations []any, key string) bool {
	for _, item := range tolerations {
		t, _ := item.(map[string]any)
		k, effect := plugins.Text(t, "key"), plugins.Text(t, "effect")
		if (k == key || k == "") && (effect == string(corev1.TaintEffectNoExecute) || effect == "") {
			return true
		}
	}
	return false
}

// mergeTolerations returns the tolerations of a pod and others, without those that another one of them covers. Equal
// ones count once (pkg/util/tolerations). Errors: 413 for more than mostMerged.
func mergeTolerations(spec map[string]any, others []corev1.Toleration) ([]any, error) {
	sent, _ := spec["tolerations"].([]any)
	if all := len(sent) + len(others); all > mostMerged {
		return nil, wire.TooLarge("a pod and what it gets have %d tolerations, limit is %d", all, mostMerged)
	}
	trees := slices.Clone(sent)
	for i := range others {
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&others[i])
		if err != nil {
			return nil, fmt.Errorf("merge tolerations: %w", err)
		}
		trees = append(trees, tree)
	}
	all := make([]corev1.Toleration, len(trees))
	for i, tree := range trees {
		object, _ := tree.(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &all[i]); err != nil {
			return nil, fmt.Errorf("read a toleration: %w", err)
		}
	}
	var merged []any
	var kept []corev1.Toleration
	for i, t := range all {
		covered := slices.ContainsFunc(kept, func(k corev1.Toleration) bool { return covers(k, t) }) ||
			slices.ContainsFunc(all[i+1:], func(o corev1.Toleration) bool {
				return !equality.Semantic.DeepEqual(o, t) && covers(o, t)
			})
		if !covered {
			kept = append(kept, t)
			merged = append(merged, trees[i])
		}
	}
	return merged, nil
}

// covers reports whether a toleration tolerates all that another one does.
func covers(wide, narrow corev1.Toleration) bool {
	switch {
	case equality.Semantic.DeepEqual(wide, narrow):
		return true
	case narrow.Key != wide.Key && (wide.Key != "" || wide.Operator != corev1.TolerationOpExists):
		return false // an empty key is all keys
	case narrow.Effect != wide.Effect && wide.Effect != "":
		return false
	case wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(narrow.TolerationSeconds == nil || *narrow.TolerationSeconds > *wide.TolerationSeconds):
		return false
	}
	if wide.Operator == corev1.TolerationOpEqual || wide.Operator == "" {
		return narrow.Operator == corev1.TolerationOpEqual && narrow.Value == wide.Value
	}
	return wide.Operator == corev1.TolerationOpExists
}
