package podspec

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Secrets yields the names of the secrets that a pod refers to, of its namespace; a name may come twice
// (pkg/api/v1/pod VisitPodSecretNames of Kubernetes 1.37).
func Secrets(spec *corev1.PodSpec) iter.Seq[string] {
	return named(func(yield func(string) bool) bool {
		for _, reference := range spec.ImagePullSecrets {
			if !yield(reference.Name) {
				return false
			}
		}
		for env, from := range environments(spec) {
			for i := range from {
				if ref := from[i].SecretRef; ref != nil && !yield(ref.Name) {
					return false
				}
			}
			for i := range env {
				if source := env[i].ValueFrom; source != nil && source.SecretKeyRef != nil && !yield(source.SecretKeyRef.Name) {
					return false
				}
			}
		}
		for i := range spec.Volumes {
			for _, name := range volumeSecrets(&spec.Volumes[i].VolumeSource) {
				if !yield(name) {
					return false
				}
			}
		}
		return true
	})
}

// ConfigMaps yields the names of the ConfigMaps that a pod refers to, of its namespace; a name may come twice
// (pkg/api/v1/pod VisitPodConfigmapNames).
func ConfigMaps(spec *corev1.PodSpec) iter.Seq[string] {
	return named(func(yield func(string) bool) bool {
		for env, from := range environments(spec) {
			for i := range from {
				if ref := from[i].ConfigMapRef; ref != nil && !yield(ref.Name) {
					return false
				}
			}
			for i := range env {
				source := env[i].ValueFrom
				if source != nil && source.ConfigMapKeyRef != nil && !yield(source.ConfigMapKeyRef.Name) {
					return false
				}
			}
		}
		for i := range spec.Volumes {
			source := &spec.Volumes[i].VolumeSource
			if source.ConfigMap != nil && !yield(source.ConfigMap.Name) {
				return false
			}
			if source.Projected == nil {
				continue
			}
			for j := range source.Projected.Sources {
				if ref := source.Projected.Sources[j].ConfigMap; ref != nil && !yield(ref.Name) {
					return false
				}
			}
		}
		return true
	})
}

// named yields those names that are not empty.
func named(visit func(yield func(string) bool) bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		visit(func(name string) bool { return name == "" || yield(name) })
	}
}

// environments yields what sets the environment of each container.
func environments(spec *corev1.PodSpec) iter.Seq2[[]corev1.EnvVar, []corev1.EnvFromSource] {
	return func(yield func([]corev1.EnvVar, []corev1.EnvFromSource) bool) {
		for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				if !yield(list[i].Env, list[i].EnvFrom) {
					return
				}
			}
		}
		for i := range spec.EphemeralContainers {
			if c := &spec.EphemeralContainers[i].EphemeralContainerCommon; !yield(c.Env, c.EnvFrom) {
				return
			}
		}
	}
}

// volumeSecrets returns the names of the secrets of a volume.
func volumeSecrets(source *corev1.VolumeSource) []string {
	local := func(ref *corev1.LocalObjectReference) []string {
		if ref == nil {
			return nil
		}
		return []string{ref.Name}
	}
	switch {
	case source.AzureFile != nil:
		return []string{source.AzureFile.SecretName}
	case source.CephFS != nil:
		return local(source.CephFS.SecretRef)
	case source.Cinder != nil:
		return local(source.Cinder.SecretRef)
	case source.FlexVolume != nil:
		return local(source.FlexVolume.SecretRef)
	case source.Projected != nil:
		var names []string
		for i := range source.Projected.Sources {
			if ref := source.Projected.Sources[i].Secret; ref != nil {
				names = append(names, ref.Name)
			}
		}
		return names
	case source.RBD != nil:
		return local(source.RBD.SecretRef)
	case source.Secret != nil:
		return []string{source.Secret.SecretName}
	case source.ScaleIO != nil:
		return local(source.ScaleIO.SecretRef)
	case source.ISCSI != nil:
		return local(source.ISCSI.SecretRef)
	case source.StorageOS != nil:
		return local(source.StorageOS.SecretRef)
	case source.CSI != nil:
		return local(source.CSI.NodePublishSecretRef)
	}
	return nil
}
