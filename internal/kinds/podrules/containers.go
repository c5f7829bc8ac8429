package podrules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// checkContainers checks the containers of a pod whose valid volumes are given.
func checkContainers(spec *field.Path, pod *corev1.PodSpec, volumes podVolumes) field.ErrorList {
	at := spec.Child("containers")
	claims, errs := checkClaims(spec, pod.ResourceClaims)
	if len(pod.Containers) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	names, ports := map[string]bool{}, map[hostPort]bool{}
	for i := range pod.Containers {
		c, p := &pod.Containers[i], at.Index(i)
		errs = append(errs, checkContainer(p, c, names, volumes)...)
		errs = append(errs, checkNeeds(p, c, claims, pod.RestartPolicy)...)
		errs = append(errs, checkRunning(p, c, pod.TerminationGracePeriodSeconds)...)
		errs = append(errs, checkRestart(p, c)...)
		errs = append(errs, checkRestartRules(p.Child("restartPolicyRules"), c.RestartPolicyRules)...)
		errs = append(errs, checkHostPorts(p, c.Ports, ports)...)
		if pod.HostNetwork {
			errs = append(errs, checkHostNetwork(p, c.Ports)...)
		}
	}
	unnamed := names[""]
	for i := range pod.InitContainers {
		c, p := &pod.InitContainers[i], spec.Child("initContainers").Index(i)
		errs = append(errs, checkContainer(p, c, names, volumes)...)
		names[""] = unnamed // upstream does not count the missing name of an init container
		errs = append(errs, checkNeeds(p, c, claims, pod.RestartPolicy)...)
		errs = append(errs, checkInitial(p, c, pod.TerminationGracePeriodSeconds)...)
		errs = append(errs, checkRestart(p, c)...)
		if c.RestartPolicy != nil { // as upstream, which does not look at the rules otherwise
			errs = append(errs, checkRestartRules(p.Child("restartPolicyRules"), c.RestartPolicyRules)...)
		}
		errs = append(errs, checkHostPorts(p, c.Ports, map[hostPort]bool{})...)
	}
	for i := range pod.EphemeralContainers {
		c, p := corev1.Container(pod.EphemeralContainers[i].EphemeralContainerCommon), spec.Child("ephemeralContainers").Index(i)
		target := pod.EphemeralContainers[i].TargetContainerName
		if target != "" && !names[target] {
			errs = append(errs, field.NotFound(p.Child("targetContainerName"), target))
		}
		errs = append(errs, checkContainer(p, &c, names, volumes)...)
		errs = append(errs, checkNeeds(p, &c, claims, pod.RestartPolicy)...)
		errs = append(errs, checkEphemeral(p, &c)...)
	}
	return errs
}

// checkEphemeral forbids what a container that is added to a running pod cannot have.
func checkEphemeral(at *field.Path, c *corev1.Container) field.ErrorList {
	var errs field.ErrorList
	forbid := func(at *field.Path, has bool) {
		if has {
			errs = append(errs, field.Forbidden(at, "cannot be set for an Ephemeral Container"))
		}
	}
	forbid(at.Child("ports"), len(c.Ports) > 0)
	forbid(at.Child("livenessProbe"), c.LivenessProbe != nil)
	forbid(at.Child("readinessProbe"), c.ReadinessProbe != nil)
	forbid(at.Child("startupProbe"), c.StartupProbe != nil)
	forbid(at.Child("lifecycle"), c.Lifecycle != nil)
	forbid(at.Child("resources"), len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0)
	forbid(at.Child("resizePolicy"), len(c.ResizePolicy) > 0)
	forbid(at.Child("restartPolicy"), c.RestartPolicy != nil)
	forbid(at.Child("restartPolicyRules"), len(c.RestartPolicyRules) > 0)
	for i, m := range c.VolumeMounts {
		forbid(at.Child("volumeMounts").Index(i).Child("subPath"), m.SubPath != "")
		forbid(at.Child("volumeMounts").Index(i).Child("subPathExpr"), m.SubPathExpr != "")
	}
	return errs
}

// checkRestart checks how a container restarts by itself.
func checkRestart(at *field.Path, c *corev1.Container) field.ErrorList {
	switch {
	case c.RestartPolicy != nil:
		return check.Known(at, "restartPolicy", *c.RestartPolicy,
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever)
	case len(c.RestartPolicyRules) > 0:
		return field.ErrorList{
			field.Required(at.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"),
		}
	}
	return nil
}

// checkRestartRules checks what a container's restart policy depends on.
func checkRestartRules(at *field.Path, rules []corev1.ContainerRestartRule) (errs field.ErrorList) {
	const mostRules, mostCodes = 20, 255
	if n := len(rules); n > mostRules {
		errs = append(errs, field.TooMany(at, n, mostRules))
	}
	for i, rule := range rules {
		p := at.Index(i)
		errs = append(errs, check.Known(p, "action", rule.Action,
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(p.Child("exitCodes"), "must be specified"))
			continue
		}
		errs = append(errs, check.Known(p.Child("exitCodes"), "operator", rule.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(rule.ExitCodes.Values); n > mostCodes {
			errs = append(errs, field.TooMany(p.Child("exitCodes", "values"), n, mostCodes))
		}
	}
	return errs
}

// checkInitial checks what only an initial container that keeps running may have.
func checkInitial(at *field.Path, c *corev1.Container, grace *int64) field.ErrorList {
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return checkRunning(at, c, grace)
	}
	var errs field.ErrorList
	forbid := func(name string, has bool) {
		if has {
			errs = append(errs,
				field.Forbidden(at.Child(name), "may not be set for init containers without restartPolicy=Always"))
		}
	}
	forbid("lifecycle", c.Lifecycle != nil)
	forbid("livenessProbe", c.LivenessProbe != nil)
	forbid("readinessProbe", c.ReadinessProbe != nil)
	forbid("startupProbe", c.StartupProbe != nil)
	for i, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			errs = append(errs, field.Invalid(at.Child("resizePolicy").Index(i).Child("restartPolicy"), p.RestartPolicy,
				"must not be set to 'RestartContainer' for non-sidecar initContainers"))
		}
	}
	return errs
}

// checkContainer checks a container; names are those of the pod's containers before it.
func checkContainer(at *field.Path, c *corev1.Container, names map[string]bool, volumes podVolumes) field.ErrorList {
	errs := check.Required(at, "name", c.Name, kinds.LabelName)
	if names[c.Name] {
		errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
	}
	names[c.Name] = true
	errs = append(errs, check.Required(at, "image", c.Image, nil)...)
	errs = append(errs,
		check.OneOf(at, "imagePullPolicy", c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, check.OneOf(at, "terminationMessagePolicy", c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, checkContainerPorts(at, c.Ports)...)
	errs = append(errs, checkEnv(at, c.Env)...)
	errs = append(errs, checkEnvFrom(at, c.EnvFrom)...)
	errs = append(errs, checkMounts(at, c, volumes)...)
	if len(c.VolumeDevices) > 0 {
		errs = append(errs, checkDevices(at, c, volumes)...)
	}
	return append(errs, checkContainerSecurity(at, c.SecurityContext)...)
}

func checkContainerPorts(container *field.Path, ports []corev1.ContainerPort) field.ErrorList {
	if len(ports) == 0 {
		return nil
	}
	var errs field.ErrorList
	at := container.Child("ports")
	names := map[string]bool{}
	for i, port := range ports {
		p := at.Index(i)
		if port.Name != "" {
			errs = append(errs, check.Invalid(p.Child("name"), port.Name, kinds.PortName(port.Name))...)
			if names[port.Name] {
				errs = append(errs, field.Duplicate(p.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(p.Child("containerPort"), ""))
		} else {
			errs = append(errs, check.PortNumber(p.Child("containerPort"), port.ContainerPort)...)
		}
		if port.HostPort != 0 {
			errs = append(errs, check.PortNumber(p.Child("hostPort"), port.HostPort)...)
		}
		errs = append(errs, check.Protocol(p, "protocol", port.Protocol)...)
	}
	return errs
}

// hostPort is a port of the host that a container takes.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

// checkHostPorts checks that no port of the host is in taken, and adds them to it.
func checkHostPorts(at *field.Path, ports []corev1.ContainerPort, taken map[hostPort]bool) field.ErrorList {
	var errs field.ErrorList
	for i, port := range ports {
		if port.HostPort == 0 {
			continue
		}
		key := hostPort{port.Protocol, port.HostIP, port.HostPort}
		if taken[key] {
			errs = append(errs,
				field.Duplicate(at.Child("ports").Index(i).Child("hostPort"),
					fmt.Sprintf("%s/%s/%d", key.protocol, key.ip, key.port)))
		}
		taken[key] = true
	}
	return errs
}

// checkHostNetwork checks that ports in the host's network are the host's. Defaults make
// them so when they are not set.
func checkHostNetwork(at *field.Path, ports []corev1.ContainerPort) field.ErrorList {
	var errs field.ErrorList
	for i, port := range ports {
		if port.HostPort != 0 && port.HostPort != port.ContainerPort {
			errs = append(errs,
				field.Invalid(at.Child("ports").Index(i).Child("hostPort"), port.HostPort,
					"must match `containerPort` when `hostNetwork` is true"))
		}
	}
	return errs
}

func checkMounts(container *field.Path, c *corev1.Container, volumes podVolumes) field.ErrorList {
	if len(c.VolumeMounts) == 0 {
		return nil
	}
	var errs field.ErrorList
	at := container.Child("volumeMounts")
	paths := map[string]bool{}
	for i := range c.VolumeMounts {
		m, p := &c.VolumeMounts[i], at.Index(i)
		errs = append(errs, check.Required(p, "name", m.Name, nil)...)
		if volumes[m.Name] == nil {
			errs = append(errs, field.NotFound(p.Child("name"), m.Name))
		}
		errs = append(errs, check.Required(p, "mountPath", m.MountPath, nil)...)
		if paths[m.MountPath] {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must be unique"))
		}
		paths[m.MountPath] = true
		// Upstream leaves the index out of the following paths.
		errs = append(errs, check.DescendingPath(at, "subPath", m.SubPath)...)
		errs = append(errs, check.DescendingPath(at, "subPathExpr", m.SubPathExpr)...)
		if m.SubPath != "" && m.SubPathExpr != "" {
			errs = append(errs,
				field.Invalid(p.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
		}
		errs = append(errs, checkPropagation(at, m, c)...)
	}
	return errs
}

func checkPropagation(at *field.Path, m *corev1.VolumeMount, c *corev1.Container) field.ErrorList {
	errs := check.KnownIfSet(at, "mountPropagation", m.MountPropagation,
		corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
	both := m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional
	if both && !isTrue(privileged(c)) {
		errs = append(errs,
			field.Forbidden(at.Child("mountPropagation"),
				"Bidirectional mount propagation is available only to privileged containers"))
	}
	recursive := m.RecursiveReadOnly
	if recursive == nil || *recursive == corev1.RecursiveReadOnlyDisabled {
		return errs
	}
	p := at.Child("recursiveReadOnly")
	if *recursive != corev1.RecursiveReadOnlyEnabled && *recursive != corev1.RecursiveReadOnlyIfPossible {
		return append(errs, check.Known(p, "", *recursive,
			corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)...)
	}
	if !m.ReadOnly {
		errs = append(errs, field.Forbidden(p, "may only be specified when readOnly is true"))
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		errs = append(errs, field.Forbidden(p, "may only be specified when mountPropagation is None or not specified"))
	}
	return errs
}

func privileged(c *corev1.Container) *bool {
	if c.SecurityContext == nil {
		return nil
	}
	return c.SecurityContext.Privileged
}

func isTrue(b *bool) bool { return b != nil && *b }

// checkDevices checks the block devices of a container: they are claims, and neither
// their names nor their paths are also those of mounts.
func checkDevices(container *field.Path, c *corev1.Container, volumes podVolumes) field.ErrorList {
	var errs field.ErrorList
	at := container.Child("volumeDevices")
	names, paths := map[string]bool{}, map[string]bool{}
	mounted, mountPaths := map[string]bool{}, map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounted[m.Name], mountPaths[m.MountPath] = true, true
	}
	for i, d := range c.VolumeDevices {
		name, path := at.Index(i).Child("name"), at.Index(i).Child("devicePath")
		errs = append(errs, check.Required(at.Index(i), "name", d.Name, nil)...)
		if d.Name != "" && names[d.Name] {
			errs = append(errs, field.Invalid(name, d.Name, "must be unique"))
		}
		source := volumes[d.Name]
		switch {
		case source == nil:
			errs = append(errs, field.NotFound(name, d.Name))
		case source.PersistentVolumeClaim == nil && source.Ephemeral == nil:
			errs = append(errs,
				field.Invalid(name, d.Name,
					"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		errs = append(errs, check.Required(at.Index(i), "devicePath", d.DevicePath, nil)...)
		switch {
		case paths[d.DevicePath]:
			errs = append(errs, field.Invalid(path, d.DevicePath, "must be unique"))
		case check.GoesBack(d.DevicePath):
			errs = append(errs, field.Invalid(path, d.DevicePath, "can not contain backsteps ('..')"))
		}
		if mounted[d.Name] {
			errs = append(errs, field.Invalid(name, d.Name, "must not already exist in volumeMounts"))
		}
		if mountPaths[d.DevicePath] {
			errs = append(errs, field.Invalid(path, d.DevicePath, "must not already exist as a path in volumeMounts"))
		}
		names[d.Name], paths[d.DevicePath] = true, true
	}
	return errs
}
