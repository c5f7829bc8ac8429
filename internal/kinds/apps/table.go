package apps

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func replicaSetTable() kinds.Table {
	spec, status := appsv1.ReplicaSetSpec{}, appsv1.ReplicaSetStatus{}
	return table.Of(replicaSetCells, podspec.ReplicaColumns(
		table.Integer("Desired", table.Doc(spec, "replicas")), table.Integer("Current", table.Doc(status, "replicas")),
		table.Integer("Ready", table.Doc(status, "readyReplicas")), table.Str("Selector", table.Doc(spec, "selector")))...)
}

func statefulSetTable() kinds.Table {
	return table.Of(func(o *appsv1.StatefulSet, r table.Meta) []any {
		names, images := podspec.Containers(o.Spec.Template.Spec)
		return []any{r.Name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, table.Deref(o.Spec.Replicas)), r.Age, names, images}
	}, append(
		[]table.Column{table.Name(), table.Str("Ready", "Number of the pod with ready state"), table.Age()},
		table.Wide(podspec.ContainerColumns()...)...)...)
}

func revisionTable() kinds.Table {
	return table.Of(revisionCells, table.Name(), table.Str("Controller", "Controller of the object"),
		table.Str("Revision", table.Doc(appsv1.ControllerRevision{}, "revision")), table.Age())
}

func deploymentTable() kinds.Table {
	status := appsv1.DeploymentStatus{}
	return table.Of(deploymentCells, append(
		[]table.Column{
			table.Name(), table.Str("Ready", "Number of the pod with ready state"),
			table.Str("Up-to-date", table.Doc(status, "updatedReplicas")),
			table.Str("Available", table.Doc(status, "availableReplicas")), table.Age(),
		},
		table.Wide(
			append(podspec.ContainerColumns(), table.Str("Selector", table.Doc(appsv1.DeploymentSpec{}, "selector")))...)...)...)
}

func deploymentCells(o *appsv1.Deployment, r table.Meta) []any {
	names, images := podspec.Containers(o.Spec.Template.Spec)
	selector := "<invalid>"
	if s, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil {
		selector = s.String()
	}
	return []any{
		r.Name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, table.Deref(o.Spec.Replicas)), int64(o.Status.UpdatedReplicas),
		int64(o.Status.AvailableReplicas), r.Age, names, images, selector,
	}
}

func replicaSetCells(o *appsv1.ReplicaSet, r table.Meta) []any {
	names, images := podspec.Containers(o.Spec.Template.Spec)
	return []any{
		r.Name, int64(table.Deref(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas), r.Age,
		names, images, metav1.FormatLabelSelector(o.Spec.Selector),
	}
}

func daemonSetTable() kinds.Table {
	status := appsv1.DaemonSetStatus{}
	return table.Of(daemonSetCells, append(
		[]table.Column{
			table.Name(), table.Integer("Desired", table.Doc(status, "desiredNumberScheduled")),
			table.Integer("Current", table.Doc(status, "currentNumberScheduled")),
			table.Integer("Ready", table.Doc(status, "numberReady")),
			table.Integer("Up-to-date", table.Doc(status, "updatedNumberScheduled")),
			table.Integer("Available", table.Doc(status, "numberAvailable")),
			table.Str("Node Selector", table.Doc(corev1.PodSpec{}, "nodeSelector")), table.Age(),
		},
		table.Wide(
			append(podspec.ContainerColumns(), table.Str("Selector", table.Doc(appsv1.DaemonSetSpec{}, "selector")))...)...)...)
}

func daemonSetCells(o *appsv1.DaemonSet, r table.Meta) []any {
	names, images := podspec.Containers(o.Spec.Template.Spec)
	s := o.Status
	return []any{
		r.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
		int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable), labels.FormatLabels(o.Spec.Template.Spec.NodeSelector), r.Age,
		names, images, metav1.FormatLabelSelector(o.Spec.Selector),
	}
}

func revisionCells(o *appsv1.ControllerRevision, r table.Meta) []any {
	owner := "<none>"
	if c := metav1.GetControllerOf(o); c != nil {
		owner = ownerText(c)
	}
	return []any{r.Name, owner, o.Revision, r.Age}
}

// ownerText prints an owner as kubectl does: "statefulset.apps/db".
func ownerText(o *metav1.OwnerReference) string {
	group, _, grouped := strings.Cut(o.APIVersion, "/")
	kind := o.Kind
	if grouped {
		kind += "." + group
	}
	if kind == "" {
		return o.Name
	}
	return strings.ToLower(kind) + "/" + o.Name
}
