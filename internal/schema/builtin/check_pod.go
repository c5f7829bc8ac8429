package builtin

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkPod(o *corev1.Pod) field.ErrorList {
	return checkPodSpec(field.NewPath("spec"), &o.Spec)
}

func checkPodTemplate(o *corev1.PodTemplate) field.ErrorList {
	return checkTemplate(field.NewPath("template"), &o.Template)
}

// checkTemplate checks the pod template of a workload. When policies are given,
// the pods' restart policy must be one of them.
func checkTemplate(at *field.Path, template *corev1.PodTemplateSpec, policies ...corev1.RestartPolicy) field.ErrorList {
	errs := metavalidation.ValidateLabels(template.Labels, at.Child("metadata", "labels"))
	errs = append(errs, checkPodSpec(at.Child("spec"), &template.Spec)...)
	if len(policies) > 0 {
		errs = append(errs, oneOfIfSet(at.Child("spec", "restartPolicy"), template.Spec.RestartPolicy, policies...)...)
	}
	return errs
}

func checkPodSpec(at *field.Path, spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	volumes := map[string]bool{}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		errs = append(errs, checkPodVolume(at.Child("volumes").Index(i), v, volumes)...)
	}
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(at.Child("containers"), ""))
	}
	names := map[string]bool{}
	for i := range spec.Containers {
		errs = append(errs, checkContainer(at.Child("containers").Index(i), &spec.Containers[i], names, volumes)...)
	}
	for i := range spec.InitContainers {
		errs = append(errs, checkContainer(at.Child("initContainers").Index(i), &spec.InitContainers[i], names, volumes)...)
	}
	errs = append(errs, oneOfIfSet(at.Child("restartPolicy"), spec.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)...)
	errs = append(errs, oneOfIfSet(at.Child("dnsPolicy"), spec.DNSPolicy,
		corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)...)
	errs = append(errs, metavalidation.ValidateLabels(spec.NodeSelector, at.Child("nodeSelector"))...)
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if spec.ServiceAccountName != "" {
		errs = append(errs, invalidBecause(at.Child("serviceAccountName"), spec.ServiceAccountName, validation.IsDNS1123Subdomain(spec.ServiceAccountName))...)
	}
	if spec.NodeName != "" {
		errs = append(errs, invalidBecause(at.Child("nodeName"), spec.NodeName, validation.IsDNS1123Subdomain(spec.NodeName))...)
	}
	if spec.Hostname != "" {
		errs = append(errs, invalidBecause(at.Child("hostname"), spec.Hostname, validation.IsDNS1123Label(spec.Hostname))...)
	}
	return errs
}

// checkPodVolume checks a volume of a pod, and notes its name in seen.
func checkPodVolume(at *field.Path, v *corev1.Volume, seen map[string]bool) field.ErrorList {
	errs := required(at.Child("name"), v.Name, validation.IsDNS1123Label)
	if seen[v.Name] {
		errs = append(errs, field.Duplicate(at.Child("name"), v.Name))
	}
	seen[v.Name] = true
	switch n := countSources(v.VolumeSource); {
	case n == 0:
		errs = append(errs, field.Required(at, "must specify a volume type"))
	case n > 1:
		errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type"))
	}
	if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "" {
		errs = append(errs, field.Required(at.Child("persistentVolumeClaim", "claimName"), ""))
	}
	if v.ConfigMap != nil && v.ConfigMap.Name == "" {
		errs = append(errs, field.Required(at.Child("configMap", "name"), ""))
	}
	if v.Secret != nil && v.Secret.SecretName == "" {
		errs = append(errs, field.Required(at.Child("secret", "secretName"), ""))
	}
	if v.HostPath != nil && v.HostPath.Path == "" {
		errs = append(errs, field.Required(at.Child("hostPath", "path"), ""))
	}
	return errs
}

// checkContainer checks a container; names are those of the pod's containers
// before it, volumes those of the pod.
func checkContainer(at *field.Path, c *corev1.Container, names, volumes map[string]bool) field.ErrorList {
	errs := required(at.Child("name"), c.Name, validation.IsDNS1123Label)
	if c.Name != "" && names[c.Name] {
		errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
	}
	names[c.Name] = true
	errs = append(errs, required(at.Child("image"), c.Image, func(image string) []string {
		if image != strings.TrimSpace(image) {
			return []string{"must not have leading or trailing whitespace"}
		}
		return nil
	})...)
	errs = append(errs, oneOfIfSet(at.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, checkContainerPorts(at.Child("ports"), c.Ports)...)
	for i, env := range c.Env {
		p := at.Child("env").Index(i)
		errs = append(errs, required(p.Child("name"), env.Name, validation.IsRelaxedEnvVarName)...)
		if env.Value != "" && env.ValueFrom != nil {
			errs = append(errs, field.Invalid(p.Child("valueFrom"), "", "may not be specified when `value` is not empty"))
		}
	}
	paths := map[string]bool{}
	for i, m := range c.VolumeMounts {
		p := at.Child("volumeMounts").Index(i)
		switch {
		case m.Name == "":
			errs = append(errs, field.Required(p.Child("name"), ""))
		case !volumes[m.Name]:
			errs = append(errs, field.NotFound(p.Child("name"), m.Name))
		}
		switch {
		case m.MountPath == "":
			errs = append(errs, field.Required(p.Child("mountPath"), ""))
		case paths[m.MountPath]:
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must be unique"))
		}
		paths[m.MountPath] = true
	}
	for _, probe := range []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
		errs = append(errs, checkProbe(at.Child(probe.name), probe.probe)...)
	}
	return append(errs, checkResources(at.Child("resources"), &c.Resources)...)
}

func checkContainerPorts(at *field.Path, ports []corev1.ContainerPort) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, port := range ports {
		p := at.Index(i)
		if port.Name != "" {
			errs = append(errs, invalidBecause(p.Child("name"), port.Name, validation.IsValidPortName(port.Name))...)
			if names[port.Name] {
				errs = append(errs, field.Duplicate(p.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(p.Child("containerPort"), ""))
		} else {
			errs = append(errs, portNumber(p.Child("containerPort"), port.ContainerPort)...)
		}
		if port.HostPort != 0 {
			errs = append(errs, portNumber(p.Child("hostPort"), port.HostPort)...)
		}
		errs = append(errs, checkProtocol(p.Child("protocol"), port.Protocol)...)
	}
	return errs
}

func checkProtocol(at *field.Path, protocol corev1.Protocol) field.ErrorList {
	return oneOf(at, protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
}

func checkProbe(at *field.Path, probe *corev1.Probe) field.ErrorList {
	if probe == nil {
		return nil
	}
	var errs field.ErrorList
	handlers := 0
	if probe.Exec != nil {
		handlers++
		if len(probe.Exec.Command) == 0 {
			errs = append(errs, field.Required(at.Child("exec", "command"), ""))
		}
	}
	if probe.HTTPGet != nil {
		handlers++
		errs = append(errs, portOrName(at.Child("httpGet", "port"), probe.HTTPGet.Port)...)
	}
	if probe.TCPSocket != nil {
		handlers++
		errs = append(errs, portOrName(at.Child("tcpSocket", "port"), probe.TCPSocket.Port)...)
	}
	if probe.GRPC != nil {
		handlers++
		errs = append(errs, portNumber(at.Child("grpc", "port"), probe.GRPC.Port)...)
	}
	switch {
	case handlers == 0:
		errs = append(errs, field.Required(at, "must specify a handler type"))
	case handlers > 1:
		errs = append(errs, field.Forbidden(at, "may not specify more than 1 handler type"))
	}
	for name, n := range map[string]int32{
		"initialDelaySeconds": probe.InitialDelaySeconds, "timeoutSeconds": probe.TimeoutSeconds,
		"periodSeconds": probe.PeriodSeconds, "successThreshold": probe.SuccessThreshold, "failureThreshold": probe.FailureThreshold,
	} {
		errs = append(errs, notNegative(at.Child(name), &n)...)
	}
	return errs
}

// checkResources checks that quantities are not negative and that no more is
// requested than the limit.
func checkResources(at *field.Path, r *corev1.ResourceRequirements) field.ErrorList {
	errs := checkAmounts(at.Child("limits"), r.Limits)
	errs = append(errs, checkAmounts(at.Child("requests"), r.Requests)...)
	for name, request := range r.Requests {
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(at.Child("requests"), request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	return errs
}

func checkAmounts(at *field.Path, amounts corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for name, amount := range amounts {
		errs = append(errs, invalidBecause(at.Key(string(name)), string(name), validation.IsQualifiedName(string(name)))...)
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), amount.String(), "must be greater than or equal to 0"))
		}
	}
	return errs
}

// keepPod refuses changes of a pod's spec but for the few fields that upstream
// lets change. One is let change besides: spec.nodeName from empty, since this
// server has no binding subresource for a scheduler to set it with.
func keepPod(o, old *corev1.Pod) field.ErrorList {
	if equality.Semantic.DeepEqual(o.Spec, old.Spec) {
		return nil
	}
	spec, before := o.Spec.DeepCopy(), &old.Spec
	takeImages(spec.Containers, before.Containers)
	takeImages(spec.InitContainers, before.InitContainers)
	spec.ActiveDeadlineSeconds = before.ActiveDeadlineSeconds
	spec.SchedulingGates = before.SchedulingGates
	if before.NodeName == "" {
		spec.NodeName = ""
	}
	if n := len(before.Tolerations); len(spec.Tolerations) > n && equality.Semantic.DeepEqual(spec.Tolerations[:n], before.Tolerations[:n]) {
		spec.Tolerations = before.Tolerations
	}
	if g, b := spec.TerminationGracePeriodSeconds, before.TerminationGracePeriodSeconds; g != nil && b != nil && *b < 0 && *g == 1 {
		spec.TerminationGracePeriodSeconds = b
	}
	if equality.Semantic.DeepEqual(spec, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"),
		"pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"+
			"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)")}
}

// takeImages gives containers the images of the former ones, so that images do
// not count in a comparison.
func takeImages(containers, former []corev1.Container) {
	if len(containers) != len(former) {
		return
	}
	for i := range containers {
		containers[i].Image = former[i].Image
	}
}
