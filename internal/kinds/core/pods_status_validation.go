package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

// validatePodStatus validates a change of the addresses in the status of a Pod, and of its
// annotations. The rest of the status is not checked.
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
	errs = append(errs, checkAddresses(at, now, was)...)
	switch first := o.Status.PodIP; {
	case (first == "") != (len(now) == 0):
		errs = append(errs, field.Invalid(at, o.Status.PodIPs, "podIP and podIPs must either both be set or both be unset"))
	case first != "" && first != now[0]:
		errs = append(errs, field.Invalid(at.Index(0).Child("ip"), now[0], "must be equal to `podIP`"))
	}
	return append(errs, checkHostIPs(&o.Status, &old.Status)...)
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
