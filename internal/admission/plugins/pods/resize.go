package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
	"k8s.io/component-helpers/resource"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// PodResizeValidator is upstream's plugin of this name: a pod on a node can only be resized if the node runs Linux, and
// has that much to give at all.
func PodResizeValidator(cluster plugins.Cluster) plugins.Plugin {
	return plugins.Plugin{
		Name: "PodResizeValidator",
		Concerns: []plugins.Concern{
			{Resource: pods, Subresource: "resize", Operations: []upstream.Operation{upstream.Update}},
		},
		Validate: func(_ context.Context, w *plugins.Write) error {
			pod, _, err := changedOnNode(w)
			if err != nil || pod == nil {
				return err
			}
			node, err := nodeAt(w, cluster, pod.Spec.NodeName)
			if err != nil {
				return err
			}
			if system, has := node.Labels[corev1.LabelOSStable]; has && system != "linux" {
				return notResized(w, "UnsupportedPlatform",
					fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, system))
			}
			if err := fits(pod, node); err != nil {
				return notResized(w, "NodeCapacity", err)
			}
			return nil
		},
	}
}

// NodeDeclaredFeatureValidator is upstream's plugin of this name: a pod on a node is not changed so that it needs a
// feature which the node does not declare. What upstream looks at in ResourceSlices is behind a gate that is off.
func NodeDeclaredFeatureValidator(cluster plugins.Cluster) plugins.Plugin {
	of := version.MustParse("1.37.2") // upstream's
	features := nodedeclaredfeatures.DefaultFramework
	return plugins.Plugin{
		Name: "NodeDeclaredFeatureValidator",
		Concerns: []plugins.Concern{
			{Resource: pods, Operations: []upstream.Operation{upstream.Update}},
			{Resource: pods, Subresource: "resize", Operations: []upstream.Operation{upstream.Update}},
		},
		Validate: func(_ context.Context, w *plugins.Write) error {
			pod, old, err := changedOnNode(w)
			if err != nil || pod == nil {
				return err
			}
			needs, err := features.InferForPodUpdate(&types.PodInfo{Spec: &old.Spec, Status: &old.Status},
				&types.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, of)
			if err != nil {
				return upstream.NewForbidden(w, fmt.Errorf("failed to infer pod capability requirements: %w", err))
			}
			if needs.IsEmpty() {
				return nil
			}
			node, err := nodeAt(w, cluster, pod.Spec.NodeName)
			if err != nil {
				return err
			}
			match, err := features.MatchNode(needs, node)
			switch {
			case err != nil:
				return upstream.NewForbidden(w,
					fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name, err))
			case !match.IsMatch:
				return upstream.NewForbidden(w, fmt.Errorf("pod update requires features %s which are not available on node %q",
					strings.Join(match.UnsatisfiedRequirements, ", "), node.Name))
			}
			return nil
		},
	}
}

// changedOnNode returns a pod that has a node and whose spec changes, and as it was; nil: it is none.
func changedOnNode(w *plugins.Write) (now, old *corev1.Pod, err error) {
	spec, _ := w.Object.Object["spec"].(map[string]any)
	if plugins.Text(spec, "nodeName") == "" || reflect.DeepEqual(spec, w.Old.Object["spec"]) {
		return nil, nil, nil
	}
	now, old = &corev1.Pod{}, &corev1.Pod{}
	for u, into := range map[*unstructured.Unstructured]*corev1.Pod{w.Object: now, w.Old: old} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
			return nil, nil, fmt.Errorf("read a pod: %w", err)
		}
	}
	return now, old, nil
}

// nodeAt returns the node of a pod. Errors: 403 if there is none, those of a node that cannot be read.
func nodeAt(w *plugins.Write, cluster plugins.Cluster, name string) (*corev1.Node, error) {
	nodes := kinds.GroupResource{Resource: "nodes"}
	if err := cluster.UnknownOf(nodes, "", name); err != nil { // before the look
		return nil, err
	}
	o := cluster.Find(nodes, wire.Key{Name: name})
	if o == nil {
		return nil, upstream.NewForbidden(w, fmt.Errorf("node %q not found", name))
	}
	var node corev1.Node
	if err := json.Unmarshal(o.JSON(), &node); err != nil {
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return &node, nil
}

// fits returns an error if a pod requests more than its node can give to all pods.
func fits(pod *corev1.Pod, node *corev1.Node) error {
	wants := resource.PodRequests(pod, resource.PodResourcesOptions{})
	cpu, memory := wants[corev1.ResourceCPU], wants[corev1.ResourceMemory]
	cpus, memories := node.Status.Allocatable.Cpu(), node.Status.Allocatable.Memory()
	var short []string
	if cpu.Cmp(*cpus) > 0 {
		short = append(short, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(), cpus.MilliValue()))
	}
	if memory.Cmp(*memories) > 0 {
		short = append(short, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), memories.Value()))
	}
	if len(short) > 0 {
		return fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(short, "; "))
	}
	return nil
}

// notResized is upstream's 403 with a cause.
func notResized(w *plugins.Write, reason metav1.CauseType, why error) error {
	forbidden := upstream.NewForbidden(w, why)
	if status, is := errors.AsType[*apierrors.StatusError](forbidden); is && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: reason})
	}
	return forbidden
}
