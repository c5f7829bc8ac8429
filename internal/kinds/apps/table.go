package printers

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func workloads(resource string) (Printer, bool) {
	switch resource {
	case "deployments.apps":
		return deployments(), true
	case "replicasets.apps":
		spec, status := appsv1.ReplicaSetSpec{}, appsv1.ReplicaSetStatus{}
		return of(replicaSetCells, replicaColumns(
			integer("Desired", doc(spec, "replicas")), integer("Current", doc(status, "replicas")),
			integer("Ready", doc(status, "readyReplicas")), str("Selector", doc(spec, "selector")))...), true
	case "replicationcontrollers":
		spec, status := corev1.ReplicationControllerSpec{}, corev1.ReplicationControllerStatus{}
		return of(replicationCells, replicaColumns(
			integer("Desired", doc(spec, "replicas")), integer("Current", doc(status, "replicas")),
			integer("Ready", doc(status, "readyReplicas")), str("Selector", doc(spec, "selector")))...), true
	case "statefulsets.apps":
		return of(func(o *appsv1.StatefulSet, r row) []any {
			names, images := containers(o.Spec.Template.Spec)
			return []any{r.name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, deref(o.Spec.Replicas)), r.age, names, images}
		}, append([]column{name(), str("Ready", "Number of the pod with ready state"), age()}, wide(containerColumns()...)...)...), true
	case "daemonsets.apps":
		return daemonSets(), true
	case "controllerrevisions.apps":
		return of(revisionCells, name(), str("Controller", "Controller of the object"),
			str("Revision", doc(appsv1.ControllerRevision{}, "revision")), age()), true
	case "podtemplates":
		return of(func(o *corev1.PodTemplate, r row) []any {
			names, images := containers(o.Template.Spec)
			return []any{r.name, names, images, labels.FormatLabels(o.Template.Labels)}
		}, append(append([]column{name()}, containerColumns()...), str("Pod Labels", "The labels for the pod template."))...), true
	}
	return Printer{}, false
}

func deployments() Printer {
	status := appsv1.DeploymentStatus{}
	return of(deploymentCells, append(
		[]column{
			name(), str("Ready", "Number of the pod with ready state"), str("Up-to-date", doc(status, "updatedReplicas")),
			str("Available", doc(status, "availableReplicas")), age(),
		},
		wide(append(containerColumns(), str("Selector", doc(appsv1.DeploymentSpec{}, "selector")))...)...)...)
}

func deploymentCells(o *appsv1.Deployment, r row) []any {
	names, images := containers(o.Spec.Template.Spec)
	selector := "<invalid>"
	if s, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil {
		selector = s.String()
	}
	return []any{
		r.name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, deref(o.Spec.Replicas)), int64(o.Status.UpdatedReplicas),
		int64(o.Status.AvailableReplicas), r.age, names, images, selector,
	}
}

// replicaColumns are the columns of replica sets and of what was there before them.
func replicaColumns(desired, current, ready, selector column) []column {
	return append([]column{name(), desired, current, ready, age()}, wide(append(containerColumns(), selector)...)...)
}

func replicaSetCells(o *appsv1.ReplicaSet, r row) []any {
	names, images := containers(o.Spec.Template.Spec)
	return []any{
		r.name, int64(deref(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas), r.age,
		names, images, metav1.FormatLabelSelector(o.Spec.Selector),
	}
}

func replicationCells(o *corev1.ReplicationController, r row) []any {
	names, images := containers(deref(o.Spec.Template).Spec)
	return []any{
		r.name, int64(deref(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas), r.age,
		names, images, labels.FormatLabels(o.Spec.Selector),
	}
}

func daemonSets() Printer {
	status := appsv1.DaemonSetStatus{}
	return of(daemonSetCells, append(
		[]column{
			name(), integer("Desired", doc(status, "desiredNumberScheduled")), integer("Current", doc(status, "currentNumberScheduled")),
			integer("Ready", doc(status, "numberReady")), integer("Up-to-date", doc(status, "updatedNumberScheduled")),
			integer("Available", doc(status, "numberAvailable")), str("Node Selector", doc(corev1.PodSpec{}, "nodeSelector")), age(),
		},
		wide(append(containerColumns(), str("Selector", doc(appsv1.DaemonSetSpec{}, "selector")))...)...)...)
}

func daemonSetCells(o *appsv1.DaemonSet, r row) []any {
	names, images := containers(o.Spec.Template.Spec)
	s := o.Status
	return []any{
		r.name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
		int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable), labels.FormatLabels(o.Spec.Template.Spec.NodeSelector), r.age,
		names, images, metav1.FormatLabelSelector(o.Spec.Selector),
	}
}

func revisionCells(o *appsv1.ControllerRevision, r row) []any {
	owner := "<none>"
	if c := metav1.GetControllerOf(o); c != nil {
		owner = ownerText(c)
	}
	return []any{r.name, owner, o.Revision, r.age}
}

// containers returns the names and the images of a pod's containers.
func containers(spec corev1.PodSpec) (names, images string) {
	var n, i []string
	for _, c := range spec.Containers {
		n = append(n, c.Name)
		i = append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
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
