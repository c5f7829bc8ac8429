package printers

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func workloads(resource string) (Printer, bool) {
	switch resource {
	case "deployments.apps":
		return of("Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*", func(o *appsv1.Deployment, r row) []any {
			names, images := containers(o.Spec.Template.Spec)
			return []any{
				r.name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, deref(o.Spec.Replicas)), int64(o.Status.UpdatedReplicas),
				int64(o.Status.AvailableReplicas), r.age, names, images, metav1.FormatLabelSelector(o.Spec.Selector),
			}
		}), true
	case "replicasets.apps":
		return of("Name|Desired|Current|Ready|Age|Containers*|Images*|Selector*", func(o *appsv1.ReplicaSet, r row) []any {
			names, images := containers(o.Spec.Template.Spec)
			return []any{
				r.name, int64(deref(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas), r.age,
				names, images, metav1.FormatLabelSelector(o.Spec.Selector),
			}
		}), true
	case "replicationcontrollers":
		return of("Name|Desired|Current|Ready|Age|Containers*|Images*|Selector*", replicationCells), true
	case "statefulsets.apps":
		return of("Name|Ready|Age|Containers*|Images*", func(o *appsv1.StatefulSet, r row) []any {
			names, images := containers(o.Spec.Template.Spec)
			return []any{r.name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, deref(o.Spec.Replicas)), r.age, names, images}
		}), true
	case "daemonsets.apps":
		return of("Name|Desired|Current|Ready|Up-to-date|Available|Node Selector|Age|Containers*|Images*|Selector*", daemonCells), true
	case "controllerrevisions.apps":
		return of("Name|Controller|Revision|Age", func(o *appsv1.ControllerRevision, r row) []any {
			owner := "<none>"
			if c := metav1.GetControllerOf(o); c != nil {
				owner = ownerText(c)
			}
			return []any{r.name, owner, o.Revision, r.age}
		}), true
	case "podtemplates":
		return of("Name|Containers|Images|Pod Labels", func(o *corev1.PodTemplate, r row) []any {
			names, images := containers(o.Template.Spec)
			return []any{r.name, names, images, selectorText(o.Template.Labels)}
		}), true
	}
	return Printer{}, false
}

func replicationCells(o *corev1.ReplicationController, r row) []any {
	names, images := "", ""
	if o.Spec.Template != nil {
		names, images = containers(o.Spec.Template.Spec)
	}
	return []any{
		r.name, int64(deref(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas), r.age,
		names, images, selectorText(o.Spec.Selector),
	}
}

func daemonCells(o *appsv1.DaemonSet, r row) []any {
	names, images := containers(o.Spec.Template.Spec)
	s := o.Status
	return []any{
		r.name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
		int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable), selectorText(o.Spec.Template.Spec.NodeSelector), r.age,
		names, images, metav1.FormatLabelSelector(o.Spec.Selector),
	}
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

// ownerText prints an owner as kubectl does: "deployment.apps/web".
func ownerText(o *metav1.OwnerReference) string {
	group, _, grouped := strings.Cut(o.APIVersion, "/")
	kind := strings.ToLower(o.Kind)
	if grouped {
		kind += "." + group
	}
	return kind + "/" + o.Name
}
