package core

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/table"
	"github.com/gapless-io/gapless/internal/wire"
)

func podTable() kinds.Table {
	t := table.OfParts(podParts(), podCells, append(
		[]table.Column{
			table.Name(),
			table.Str("Ready", "The aggregate readiness state of this pod for accepting traffic."),
			table.Str("Status", "The aggregate status of the containers in this pod."),
			table.Str(
				"Restarts",
				"The number of times the containers in this pod have been restarted "+
					"and when the last container in this pod has restarted.",
			),
			table.Age(),
		},
		table.Wide(
			table.Str("IP", table.Doc(corev1.PodStatus{}, "podIP")),
			table.Str("Node", table.Doc(corev1.PodSpec{}, "nodeName")),
			table.Str("Nominated Node", table.Doc(corev1.PodStatus{}, "nominatedNodeName")),
			table.Str("Readiness Gates", table.Doc(corev1.PodSpec{}, "readinessGates")),
		)...)...)
	t.RowConditions = podConditions
	t.RowsSince = 35 // a pod whose container failed is Error, and no longer Completed
	return t
}

// podParts is what podCells reads.
func podParts() *jsontree.Part {
	parts := []string{
		"metadata.deletionTimestamp", "spec.nodeName", "spec.readinessGates", "spec.containers.*",
		"spec.initContainers.*.name", "spec.initContainers.*.restartPolicy",
		"status.phase", "status.reason", "status.nominatedNodeName", "status.podIP", "status.podIPs",
		"status.conditions.*.type", "status.conditions.*.status", "status.conditions.*.reason",
	}
	for _, list := range []string{"status.initContainerStatuses.*.", "status.containerStatuses.*."} {
		for _, member := range []string{"name", "state", "ready", "started", "restartCount"} {
			parts = append(parts, list+member)
		}
		parts = append(parts, list+"lastState.terminated.finishedAt")
	}
	return jsontree.Parts(parts...)
}

// podConditions says of a pod that has ended how it did.
func podConditions(o *wire.Object) []metav1.TableRowCondition {
	phase := o.Fields().Get("status.phase")
	ended := func(message string) []metav1.TableRowCondition {
		return []metav1.TableRowCondition{
			{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: phase, Message: message},
		}
	}
	switch corev1.PodPhase(phase) {
	case corev1.PodSucceeded:
		return ended("The pod has completed successfully.")
	case corev1.PodFailed:
		return ended("The pod failed.")
	case corev1.PodPending, corev1.PodRunning, corev1.PodUnknown:
	}
	return nil
}

func podCells(o *corev1.Pod, r table.Meta) []any {
	s := summarize(o)
	var restarts any = strconv.Itoa(s.restarts.count)
	if s.restarts.count != 0 && !s.restarts.last.IsZero() {
		restarts = kinds.Ago{Then: s.restarts.last, Before: strconv.Itoa(s.restarts.count) + " (", After: " ago)"}
	}
	return []any{
		r.Name, strconv.Itoa(s.ready) + "/" + strconv.Itoa(s.total), podStatus(o, s.reason), restarts, r.Age,
		table.OrNone(podIP(o)), table.OrNone(o.Spec.NodeName), table.OrNone(o.Status.NominatedNodeName), readinessGates(o),
	}
}

// podStatus is the word in the STATUS column: the reason, unless the pod is being deleted.
func podStatus(o *corev1.Pod, reason string) string {
	ended := o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
	switch {
	case o.DeletionTimestamp != nil && o.Status.Reason == "NodeLost": // its node cannot be reached
		return "Unknown"
	case o.DeletionTimestamp != nil && !ended:
		return "Terminating"
	}
	return reason
}

// podIP is the first address of a pod. A kubelet may write only podIP, which also has
// precedence (kubernetes pkg/apis/core/v1/defaults.go SetDefaults_PodStatus).
func podIP(o *corev1.Pod) string {
	if o.Status.PodIP == "" && len(o.Status.PodIPs) > 0 {
		return o.Status.PodIPs[0].IP
	}
	return o.Status.PodIP
}

// podSummary is what the containers of a pod amount to.
type podSummary struct {
	ready, total int
	restarts     restarts
	reason       string
}

// restarts are those of some containers: how many, and when the last one ended.
type restarts struct {
	count int
	last  time.Time
}

func (r *restarts) add(c *corev1.ContainerStatus) {
	r.count += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(r.last) {
		r.last = t.FinishedAt.Time
	}
}

// summarize shows the init containers until all are done, or the pod says that it is
// initialized, and then the others with the sidecars.
func summarize(o *corev1.Pod) podSummary {
	s := podSummary{total: len(o.Spec.Containers), reason: table.Or(o.Status.Reason, string(o.Status.Phase))}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for _, c := range o.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.total++
		}
	}
	initializing, sidecarRestarts := s.initContainers(o, sidecars)
	if !initializing || initialized(o) {
		s.restarts = sidecarRestarts
		s.containers(o)
	}
	return s
}

// initContainers adds the init containers up to the first one that is not done.
func (s *podSummary) initContainers(o *corev1.Pod, sidecars map[string]bool) (initializing bool, sidecarRestarts restarts) {
	for i := range o.Status.InitContainerStatuses {
		c := &o.Status.InitContainerStatuses[i]
		s.restarts.add(c)
		if sidecars[c.Name] {
			sidecarRestarts.add(c)
		}
		t, w := c.State.Terminated, c.State.Waiting
		switch {
		case t != nil && t.ExitCode == 0:
			continue
		case sidecars[c.Name] && table.Deref(c.Started):
			if c.Ready {
				s.ready++
			}
			continue
		case t != nil:
			s.reason = "Init:" + terminatedReason(t)
		case w != nil && w.Reason != "" && w.Reason != "PodInitializing":
			s.reason = "Init:" + w.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(o.Spec.InitContainers))
		}
		return true, sidecarRestarts
	}
	return false, sidecarRestarts
}

// initialized reports whether the pod says that all init containers are done.
func initialized(o *corev1.Pod) bool {
	i := slices.IndexFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodInitialized })
	return i >= 0 && o.Status.Conditions[i].Status == corev1.ConditionTrue
}

// containers adds the containers. The first one that waits or has ended gives the reason.
func (s *podSummary) containers(o *corev1.Pod) {
	running, failure := false, ""
	for i := range slices.Backward(o.Status.ContainerStatuses) {
		c := &o.Status.ContainerStatuses[i]
		s.restarts.add(c)
		switch t := c.State.Terminated; {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.reason = c.State.Waiting.Reason
		case t != nil:
			s.reason = terminatedReason(t)
			if t.ExitCode != 0 {
				failure = s.reason
			}
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason != "Completed" {
		return
	}
	switch { // one container has completed, which says little about the others
	case running && isReady(o):
		s.reason = "Running"
	case failure != "":
		s.reason = failure
	case running:
		s.reason = "NotReady"
	}
}

func isReady(o *corev1.Pod) bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func terminatedReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", t.ExitCode)
	}
}

// readinessGates counts the gates whose first condition is true.
func readinessGates(o *corev1.Pod) string {
	if len(o.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	ready := 0
	for _, gate := range o.Spec.ReadinessGates {
		i := slices.IndexFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		if i >= 0 && o.Status.Conditions[i].Status == corev1.ConditionTrue {
			ready++
		}
	}
	return fmt.Sprintf("%d/%d", ready, len(o.Spec.ReadinessGates))
}

func replicationCells(o *corev1.ReplicationController, r table.Meta) []any {
	names, images := podspec.Containers(table.Deref(o.Spec.Template).Spec)
	return []any{
		r.Name, int64(table.Deref(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas), r.Age,
		names, images, labels.FormatLabels(o.Spec.Selector),
	}
}

func replicationControllerTable() kinds.Table {
	spec, status := corev1.ReplicationControllerSpec{}, corev1.ReplicationControllerStatus{}
	return table.Of(replicationCells, podspec.ReplicaColumns(
		table.Integer("Desired", table.Doc(spec, "replicas")), table.Integer("Current", table.Doc(status, "replicas")),
		table.Integer("Ready", table.Doc(status, "readyReplicas")), table.Str("Selector", table.Doc(spec, "selector")))...)
}

func podTemplateTable() kinds.Table {
	return table.Of(func(o *corev1.PodTemplate, r table.Meta) []any {
		names, images := podspec.Containers(o.Template.Spec)
		return []any{r.Name, names, images, labels.FormatLabels(o.Template.Labels)}
	}, append(
		append([]table.Column{table.Name()}, podspec.ContainerColumns()...),
		table.Str("Pod Labels", "The labels for the pod template."))...)
}
