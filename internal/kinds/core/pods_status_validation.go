package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

// validatePodStatus validates a change of the status of a Pod, and of its annotations: not what it says about users of
// containers, claims of devices, and the health of either.
func validatePodStatus(o, old *corev1.Pod) field.ErrorList {
	now, was := make([]string, 0, len(o.Status.PodIPs)), make([]string, 0, len(old.Status.PodIPs))
	for _, ip := range o.Status.PodIPs {
		now = append(now, ip.IP)
	}
	for _, ip := range old.Status.PodIPs {
		was = append(was, ip.IP)
	}
	at := field.NewPath("status", "podIPs")
	errs := append(podrules.AnnotationUpdate(o, old), podrules.Annotations(podrules.AnnotationsPath(), o.Annotations, &o.Spec)...)
	errs = append(errs, checkProgress(o, old)...)
	errs = append(errs, checkAddresses(at, now, was)...)
	switch first := o.Status.PodIP; {
	case (first == "") != (len(now) == 0):
		errs = append(errs, field.Invalid(at, o.Status.PodIPs, "podIP and podIPs must either both be set or both be unset"))
	case first != "" && first != now[0]:
		errs = append(errs, field.Invalid(at.Index(0).Child("ip"), now[0], "must be equal to `podIP`"))
	}
	return append(errs, checkHostIPs(&o.Status, &old.Status)...)
}

// checkProgress checks what a status says of where a pod is to run, and of how it got on.
func checkProgress(o, old *corev1.Pod) field.ErrorList {
	const negative = "must be a non-negative integer"
	at := field.NewPath("status")
	now, was := &o.Status, &old.Status
	var errs field.ErrorList
	for i, c := range now.Conditions {
		p := at.Child("conditions").Index(i)
		if c.ObservedGeneration < 0 {
			errs = append(errs, field.Invalid(p.Child("observedGeneration"), c.ObservedGeneration, negative))
		}
		if c.Type != corev1.PodScheduled && c.Type != corev1.PodReady && c.Type != corev1.PodInitialized {
			// Upstream's path has a capital letter.
			errs = append(errs, check.Invalid(p.Child("Type"), string(c.Type), validation.IsQualifiedName(string(c.Type)))...)
		}
	}
	if name := now.NominatedNodeName; name != "" && name != was.NominatedNodeName {
		errs = append(errs, check.Invalid(at.Child("nominatedNodeName"), name, kinds.SubdomainName(name))...)
		if old.Spec.NodeName != "" {
			errs = append(errs,
				field.Forbidden(at.Child("nominatedNodeName"), "may not be set on pods that are already bound to a node"))
		}
	}
	if now.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(at.Child("observedGeneration"), now.ObservedGeneration, negative))
	}
	errs = append(errs, check.Unchanged(at, "qosClass", now.QOSClass, was.QOSClass)...)
	if !restartsAll(&old.Spec) {
		errs = append(errs, checkEnded(at.Child("containerStatuses"), now.ContainerStatuses, was.ContainerStatuses,
			restarting{old.Spec.Containers, old.Spec.RestartPolicy})...)
		errs = append(errs, checkEnded(at.Child("initContainerStatuses"), now.InitContainerStatuses,
			was.InitContainerStatuses, restarting{old.Spec.InitContainers, old.Spec.RestartPolicy})...)
	}
	return append(errs, checkEnded(at.Child("ephemeralContainerStatuses"), now.EphemeralContainerStatuses,
		was.EphemeralContainerStatuses, restarting{nil, old.Spec.RestartPolicy})...)
}

// restartsAll reports whether the end of a container may restart all of them, whatever they have ended with.
func restartsAll(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// restarting is which containers of a pod may run again.
type restarting struct {
	containers []corev1.Container
	policy     corev1.RestartPolicy // of the pod
}

// checkEnded checks that containers which have ended and do not restart stay so.
func checkEnded(at *field.Path, now, was []corev1.ContainerStatus, of restarting) field.ErrorList {
	running := map[string]bool{}
	for _, c := range slices.Backward(now) { // the first of a name counts
		running[c.Name] = c.State.Terminated == nil
	}
	restarts := map[string]*corev1.Container{}
	for i := range slices.Backward(of.containers) {
		restarts[of.containers[i].Name] = &of.containers[i]
	}
	var errs field.ErrorList
	for i := range was {
		ended := was[i].State.Terminated
		if ended == nil || !running[was[i].Name] {
			continue
		}
		if c := restarts[was[i].Name]; c == nil || !mayRestart(c, of.policy, ended.ExitCode) {
			errs = append(errs,
				field.Forbidden(at.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
		}
	}
	return errs
}

// mayRestart reports whether a container may run again after it has exited with a code.
func mayRestart(c *corev1.Container, pod corev1.RestartPolicy, code int32) bool {
	for _, rule := range c.RestartPolicyRules {
		if rule.ExitCodes == nil || c.RestartPolicy == nil {
			continue
		}
		want := rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn
		if slices.Contains(rule.ExitCodes.Values, code) == want {
			return true
		}
	}
	policy := string(pod)
	if c.RestartPolicy != nil {
		policy = string(*c.RestartPolicy)
	}
	switch policy {
	case string(corev1.RestartPolicyNever):
		return false
	case string(corev1.RestartPolicyOnFailure):
		return code != 0
	}
	return true
}

func checkHostIPs(status, before *corev1.PodStatus) field.ErrorList {
	if len(status.HostIPs) == 0 {
		return nil
	}
	now, was := make([]string, 0, len(status.HostIPs)), make([]string, 0, len(before.HostIPs))
	for _, ip := range status.HostIPs {
		now = append(now, ip.IP)
	}
	for _, ip := range before.HostIPs {
		was = append(was, ip.IP)
	}
	at := field.NewPath("status", "hostIPs")
	var errs field.ErrorList
	if status.HostIP != now[0] {
		errs = append(errs, field.Invalid(at.Index(0).Child("ip"), now[0], "must be equal to `hostIP`"))
	}
	return append(errs, checkAddresses(at, now, was)...)
}

func checkAddresses(at *field.Path, now, was []string) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range now {
		errs = append(errs, check.IP(at.Index(i), ip, was)...)
	}
	return append(errs, check.OnePerFamily(at, now, "may specify no more than one IP for each IP family", check.ParseIP)...)
}
