package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// list collects warnings about pods.
type list struct{ *warn.List }

// WarnTemplate warns about the template of pods at a path.
func WarnTemplate(l *warn.List, at *field.Path, t *corev1.PodTemplateSpec) {
	Warn(l, at, &t.Spec, &t.ObjectMeta)
}

// Warn warns about a pod, or about a template of pods at a path.
func Warn(l *warn.List, at *field.Path, spec *corev1.PodSpec, meta *metav1.ObjectMeta) {
	list{l}.pod(at, spec, meta)
}

// WarnProfiles warns about annotations in place of the fields for AppArmor profiles, which
// upstream says first of pods that are no templates.
func WarnProfiles(l *warn.List, o *corev1.Pod) {
	if !ofContainers(o.Annotations) || o.Spec.OS != nil && o.Spec.OS.Name == corev1.Windows {
		return
	}
	containers := containersOf(nil, &o.Spec)
	for i := range containers {
		list{l}.appArmor(&containers[i], &o.Spec, o.Annotations)
	}
}

// container is one of a pod's, and where it stands.
type container struct {
	*corev1.Container
	pod  *field.Path // of the template; nil for a pod itself
	list string
	i    int
}

// path returns the path of the container: only warnings cost its memory.
func (c *container) path() *field.Path { return c.pod.Child("spec", c.list).Index(c.i) }

// containersOf returns the containers of a pod, or of a template at a path. Those of
// ephemeral containers are in no object that is warned about.
func containersOf(at *field.Path, spec *corev1.PodSpec) []container {
	all := make([]container, 0, len(spec.InitContainers)+len(spec.Containers))
	for i := range spec.InitContainers {
		all = append(all, container{&spec.InitContainers[i], at, "initContainers", i})
	}
	for i := range spec.Containers {
		all = append(all, container{&spec.Containers[i], at, "containers", i})
	}
	return all
}

// pod warns about a pod, or about a template of pods at a path.
func (l list) pod(at *field.Path, spec *corev1.PodSpec, meta *metav1.ObjectMeta) {
	l.placement(at, spec)
	l.Annotation(
		at,
		meta.Annotations,
		"scheduler.alpha.kubernetes.io/critical-pod",
		`non-functional in v1.16+; use the "priorityClassName" field instead`,
	)
	l.Annotation(
		at,
		meta.Annotations,
		"security.alpha.kubernetes.io/sysctls",
		`non-functional in v1.11+; use the "sysctls" field instead`,
	)
	l.Annotation(
		at,
		meta.Annotations,
		"security.alpha.kubernetes.io/unsafe-sysctls",
		`non-functional in v1.11+; use the "sysctls" field instead`,
	)
	l.volumes(at, spec.Volumes)
	l.overlappingPaths(spec.Volumes)
	for _, i := range warn.Repeated(len(spec.HostAliases), func(i int) string { return spec.HostAliases[i].IP }) {
		l.At(at.Child("spec", "hostAliases").Index(i).Child("ip"), "duplicate ip %q", spec.HostAliases[i].IP)
	}
	secrets := spec.ImagePullSecrets
	for _, i := range warn.Repeated(len(secrets), func(i int) string { return secrets[i].Name }) {
		l.At(at.Child("spec", "imagePullSecrets").Index(i).Child("name"), "duplicate name %q", secrets[i].Name)
	}
	for i, secret := range secrets {
		if secret.Name == "" {
			l.At(at.Child("spec", "imagePullSecrets").Index(i).Child("name"), `invalid empty name ""`)
		}
	}
	overhead := func() *field.Path { return at.Child("spec", "overhead") }
	l.WholeBytes(overhead, spec.Overhead, corev1.ResourceMemory)
	l.WholeBytes(overhead, spec.Overhead, corev1.ResourceEphemeralStorage)
	if spec.SecurityContext == nil || spec.SecurityContext.SeccompProfile == nil {
		l.Annotation(at, meta.Annotations, corev1.SeccompPodAnnotationKey, oldSeccomp)
	}
	containers, annotated := containersOf(at, spec), ofContainers(meta.Annotations)
	for i := range containers {
		if annotated {
			l.annotated(&containers[i], spec, meta.Annotations)
		}
		l.container(&containers[i])
	}
	ports := portsOf(containers)
	l.ports(ports)
	l.portNames(ports)
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		l.At(
			at.Child("spec", "terminationGracePeriodSeconds"),
			"must be >= 0; negative values are invalid and will be treated as 1",
		)
	}
	l.affinity(at, spec.Affinity)
	if spec.DNSConfig != nil {
		for i, server := range spec.DNSConfig.Nameservers {
			l.Address(func() *field.Path { return at.Child("spec", "dnsConfig", "nameservers").Index(i) }, server)
		}
	}
	for i := range spec.HostAliases {
		l.Address(func() *field.Path { return at.Child("spec", "hostAliases").Index(i).Child("ip") }, spec.HostAliases[i].IP)
	}
}

// placement warns about where a pod may run.
func (l list) placement(at *field.Path, spec *corev1.PodSpec) {
	for _, key := range warn.OldKeys(spec.NodeSelector) {
		l.At(at.Child("spec", "nodeSelector").Key(key), "%s", warn.OldLabel(key))
	}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		nodes := at.Child("spec", "affinity", "nodeAffinity")
		if required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for i := range required.NodeSelectorTerms {
				l.Term(
					nodes.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i),
					&required.NodeSelectorTerms[i],
					false,
				)
			}
		}
		preferred := spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		for i := range preferred {
			l.Term(
				nodes.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"),
				&preferred[i].Preference,
				true,
			)
		}
	}
	for i, spread := range spec.TopologySpreadConstraints {
		path := at.Child("spec", "topologySpreadConstraints").Index(i)
		if why := warn.OldLabel(spread.TopologyKey); why != "" {
			l.At(path.Child("topologyKey"), "%s is %s", spread.TopologyKey, why)
		}
		if spread.LabelSelector == nil {
			l.At(path.Child("labelSelector"), "%s", matchesNone)
		}
	}
}

const (
	matchesNone = "a null labelSelector results in matching no pod"
	oldSeccomp  = `non-functional in v1.27+; use the "seccompProfile" field instead`
)

// affinity warns about terms that no pod matches.
func (l list) affinity(at *field.Path, a *corev1.Affinity) {
	if a == nil {
		return
	}
	terms := func(name string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		path := at.Child("spec", "affinity", name)
		for i := range required {
			if required[i].LabelSelector == nil {
				l.At(
					path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child("labelSelector"),
					"%s",
					matchesNone,
				)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				l.At(
					path.Child("preferredDuringSchedulingIgnoredDuringExecution").
						Index(i).
						Child("podAffinityTerm", "labelSelector"),
					"%s",
					matchesNone,
				)
			}
		}
	}
	if p := a.PodAffinity; p != nil {
		terms("podAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(
			"podAntiAffinity",
			p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution,
		)
	}
}

// ofContainers reports whether any annotation may be about a container.
func ofContainers(annotations map[string]string) bool {
	for key := range annotations {
		if strings.HasPrefix(key, "container.") {
			return true
		}
	}
	return false
}

// annotated warns about the annotations of one container of a pod.
func (l list) annotated(c *container, pod *corev1.PodSpec, annotations map[string]string) {
	if c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil {
		l.Annotation(c.pod, annotations, corev1.SeccompContainerAnnotationKeyPrefix+c.Name, oldSeccomp)
	}
	if c.pod != nil { // a pod itself was looked at before
		l.appArmor(c, pod, annotations)
	}
}

// container warns about the fields of one container of a pod.
func (l list) container(c *container) {
	limits := func() *field.Path { return c.path().Child("resources", "limits") }
	requests := func() *field.Path { return c.path().Child("resources", "requests") }
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		l.WholeBytes(limits, c.Resources.Limits, name)
		l.WholeBytes(requests, c.Resources.Requests, name)
	}
	for _, i := range warn.Repeated(len(c.Env), func(i int) string { return c.Env[i].Name }) {
		v := &c.Env[i]
		// A value may be made of the former one: PATH=$(PATH):/more.
		former := "$(" + v.Name + ")"
		if v.ValueFrom != nil || v.Value == former || !strings.Contains(v.Value, former) {
			l.At(c.path().Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
		}
	}
}

// appArmor warns about an annotation in place of the field for a container's AppArmor profile,
// unless it says what the field of the pod says.
func (l list) appArmor(c *container, pod *corev1.PodSpec, annotations map[string]string) {
	value, has := annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
	if !has || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return
	}
	said := appArmorProfile(value)
	if pod.SecurityContext != nil && said != nil && equality.Semantic.DeepEqual(said, pod.SecurityContext.AppArmorProfile) {
		return
	}
	l.At(c.pod.Child("metadata", "annotations").Key(corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name),
		`deprecated since v1.30; use the "appArmorProfile" field instead`)
}

// appArmorProfile returns the profile that an annotation names; nil if it names none.
func appArmorProfile(annotation string) *corev1.AppArmorProfile {
	switch annotation {
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	name, is := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	if !is || name == "" {
		return nil
	}
	return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
}

// port is one of a container's, and where it stands.
type port struct {
	*corev1.ContainerPort
	of *container
	i  int
}

func (p port) path() *field.Path { return p.of.path().Child("ports").Index(p.i) }

// portsOf returns the ports of containers.
func portsOf(containers []container) []port {
	n := 0
	for i := range containers {
		n += len(containers[i].Ports)
	}
	all := make([]port, 0, n)
	for i := range containers {
		for j := range containers[i].Ports {
			all = append(all, port{&containers[i].Ports[j], &containers[i], j})
		}
	}
	return all
}

// portNumber is what two ports of a pod must not have in common.
type portNumber struct {
	n        int32
	protocol corev1.Protocol
}

// ports warns about ports of a pod that are the same, or may be.
func (l list) ports(all []port) {
	var seen map[portNumber][]int
	if len(all) > warn.Few {
		seen = make(map[portNumber][]int, len(all))
	}
	for i, p := range all {
		if p.HostIP != "" && p.HostPort == 0 {
			l.At(p.path(), "hostIP set without hostPort: %+v", *p.ContainerPort)
		}
		number := portNumber{p.ContainerPort.ContainerPort, p.Protocol}
		if seen == nil {
			for _, other := range all[:i] {
				if (portNumber{other.ContainerPort.ContainerPort, other.Protocol}) == number {
					l.collision(p, other)
				}
			}
			continue
		}
		if l.Spend(len(seen[number])) {
			for _, j := range seen[number] {
				l.collision(p, all[j])
			}
		}
		seen[number] = append(seen[number], i)
	}
}

// collision warns about a port and an earlier one with the same number and protocol.
func (l list) collision(p, other port) {
	var what string
	switch {
	case p.HostIP == other.HostIP && p.HostPort == other.HostPort:
		what = "duplicate"
	case p.HostPort == 0 || other.HostPort == 0:
		what = "overlapping"
	case p.HostPort == other.HostPort && (p.HostIP == "") != (other.HostIP == ""):
		what = "dangerously ambiguous"
	default:
		return
	}
	l.At(p.path(), "%s port definition with %s", what, other.path())
}

// portNames warns about ports of a pod that have one name.
func (l list) portNames(all []port) {
	if len(all) < 2 {
		return
	}
	first := make(map[string]int, len(all))
	for i, p := range all {
		if p.Name == "" {
			continue
		}
		if j, found := first[p.Name]; found {
			at := all[j].path()
			l.At(
				p.path(),
				"duplicate port name %q with %s, services and probes that select ports by name will use %s",
				p.Name,
				at,
				at,
			)
		} else {
			first[p.Name] = i
		}
	}
}

// TemplateAt is where most workloads have the template of their pods.
func TemplateAt() *field.Path { return field.NewPath("spec", "template") }
