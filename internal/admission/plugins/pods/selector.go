package pods

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	upstream "k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/wire"
)

// SelectorName is the name of PodNodeSelector.
const SelectorName = "PodNodeSelector"

// selectorAnnotation is the node selector of a namespace.
const selectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

// PodNodeSelector is upstream's plugin of this name: new pods get the node selector of their namespace, or that of the
// cluster, and may have no other labels than those that are listed for their namespace. config has
// podNodeSelectorPluginConfig: a map of a namespace, or clusterDefaultNodeSelector, to a selector; nil is none. Upstream
// finds a wrong selector when a pod is created; here it is an error.
func PodNodeSelector(cluster plugins.Cluster, config []byte) (plugins.Plugin, error) {
	p := plugins.Plugin{
		Name:     SelectorName,
		Concerns: []plugins.Concern{{Resource: pods, Operations: []upstream.Operation{upstream.Create}}},
	}
	var read struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := yaml.UnmarshalStrict(config, &read); err != nil {
		return p, fmt.Errorf("configuration of %s: %w", SelectorName, err)
	}
	s := selectors{cluster: cluster, of: map[string]labels.Set{}}
	for namespace, text := range read.Selectors {
		of, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			return p, fmt.Errorf("configuration of %s: podNodeSelectorPluginConfig[%s]: %w", SelectorName, namespace, err)
		}
		s.of[namespace] = of
	}
	p.Admit, p.Validate = s.admit, s.validate
	return p, nil
}

// selectors are what PodNodeSelector is configured with, by namespace.
type selectors struct {
	cluster plugins.Cluster
	of      map[string]labels.Set
}

func (s selectors) admit(ctx context.Context, w *plugins.Write) error {
	spec, err := plugins.Spec(w.Object)
	if err != nil {
		return err
	}
	wanted, err := s.wanted(w)
	if err != nil {
		return err
	}
	has := selectorOf(w.Object)
	if labels.Conflicts(wanted, has) {
		return conflicts(w)
	}
	if merged := labels.Merge(wanted, has); len(merged) > len(has) {
		tree := make(map[string]any, len(merged))
		for key, value := range merged {
			tree[key] = value
		}
		spec["nodeSelector"] = tree
	}
	return s.validate(ctx, w)
}

func (s selectors) validate(_ context.Context, w *plugins.Write) error {
	wanted, err := s.wanted(w)
	if err != nil {
		return err
	}
	has := selectorOf(w.Object)
	if labels.Conflicts(wanted, has) {
		return conflicts(w)
	}
	listed := s.of[w.GetNamespace()]
	for key, value := range has {
		if of, is := listed[key]; len(listed) > 0 && (!is || of != value) {
			return wire.Forbidden(pods, w.Object.GetName(),
				"pod node label selector labels conflict with its namespace whitelist")
		}
	}
	return nil
}

func conflicts(w *plugins.Write) error {
	return wire.Forbidden(pods, w.Object.GetName(), "pod node label selector conflicts with its namespace node label selector")
}

// wanted returns the selector of the namespace, or that of the cluster.
func (s selectors) wanted(w *plugins.Write) (labels.Set, error) {
	namespace, err := plugins.Namespace(s.cluster, w.GetNamespace())
	if err != nil {
		return nil, err
	}
	annotations, err := plugins.Annotations(namespace)
	if err != nil {
		return nil, err
	}
	if text, has := annotations[selectorAnnotation]; has {
		selector, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			return nil, wire.Unknown(err)
		}
		return selector, nil
	}
	return s.of["clusterDefaultNodeSelector"], nil
}

func selectorOf(pod *unstructured.Unstructured) labels.Set {
	has, _, _ := unstructured.NestedStringMap(pod.Object, "spec", "nodeSelector") // the rules of the kind refuse a wrong type
	return has
}
