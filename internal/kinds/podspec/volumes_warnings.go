package warnings

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What is said about volumes of drivers that are gone.
const (
	goneIn16 = "deprecated in v1.11, non-functional in v1.16+"
	goneIn22 = "deprecated in v1.16, non-functional in v1.22+"
	goneIn25 = "deprecated in v1.22, non-functional in v1.25+"
	goneIn26 = "deprecated in v1.25, non-functional in v1.26+"
	goneIn31 = "deprecated in v1.28, non-functional in v1.31+"
)

// oldVolume returns what is said about the source of a volume, and its field; "" if nothing is.
func oldVolume(v *corev1.Volume) (name, why string) {
	switch {
	case v.PhotonPersistentDisk != nil:
		return "photonPersistentDisk", goneIn16
	case v.GitRepo != nil:
		return "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"
	case v.ScaleIO != nil:
		return "scaleIO", goneIn22
	case v.Flocker != nil:
		return "flocker", goneIn25
	case v.StorageOS != nil:
		return "storageOS", goneIn25
	case v.Quobyte != nil:
		return "quobyte", goneIn25
	case v.Glusterfs != nil:
		return "glusterfs", goneIn26
	case v.CephFS != nil:
		return "cephfs", goneIn31
	case v.RBD != nil:
		return "rbd", goneIn31
	}
	return "", ""
}

// volumes warns about volumes of drivers that are gone, and about claims in volumes.
func (l *list) volumes(at *field.Path, volumes []corev1.Volume) {
	for i := range volumes {
		if name, why := oldVolume(&volumes[i]); name != "" {
			l.at(at.Child("spec", "volumes").Index(i).Child(name), "%s", why)
		}
		if e := volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			l.claim(func() *field.Path {
				return at.Child("spec", "volumes").Index(i).Child("ephemeral", "volumeClaimTemplate", "spec")
			}, &e.VolumeClaimTemplate.Spec)
		}
	}
}

// claim warns about the spec of a claim of a volume.
func (l *list) claim(at func() *field.Path, spec *corev1.PersistentVolumeClaimSpec) {
	l.wholeBytes(func() *field.Path { return at().Child("resources", "requests") }, spec.Resources.Requests, corev1.ResourceStorage)
	l.wholeBytes(func() *field.Path { return at().Child("resources", "limits") }, spec.Resources.Limits, corev1.ResourceStorage)
}

// file is one that a volume has, and where it comes from.
type file struct{ path, source string }

func (f file) String() string {
	if f.source == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.source)
}

// overlaps reports whether one of two files hides the other, or is below it.
func (f file) overlaps(other file) bool {
	if f.path == "" || other.path == "" {
		return false
	}
	return strings.HasPrefix(other.path+"/", f.path+"/") || strings.HasPrefix(f.path+"/", other.path+"/")
}

// overlappingPaths warns about volumes in which one file hides another.
func (l *list) overlappingPaths(volumes []corev1.Volume) {
	for i := range volumes {
		switch v := &volumes[i]; {
		case v.ConfigMap != nil && len(v.ConfigMap.Items) > 1:
			l.overlaps(v.Name, fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), nil, keyFiles(v.ConfigMap.Items, ""))
		case v.Secret != nil && len(v.Secret.Items) > 1:
			l.overlaps(v.Name, fmt.Sprintf("Secret %q", v.Secret.SecretName), nil, keyFiles(v.Secret.Items, ""))
		case v.DownwardAPI != nil && len(v.DownwardAPI.Items) > 1:
			l.overlaps(v.Name, "DownwardAPI", nil, downwardFiles(v.DownwardAPI.Items, ""))
		case v.Projected != nil:
			var all []file
			for j := range v.Projected.Sources {
				source := &v.Projected.Sources[j]
				if *source == (corev1.VolumeProjection{}) {
					l.say("volume %q (Projected) has no sources provided", v.Name)
				}
				all = l.overlaps(v.Name, "Projected", all, projectedFiles(source))
			}
		}
	}
}

// overlaps warns about further files of a volume, besides earlier ones, and returns all of them.
func (l *list) overlaps(volume, kind string, files, further []file) []file {
	for _, f := range further {
		f.path = strings.TrimRight(f.path, "/")
		if !l.spend(len(files)) {
			return files
		}
		for _, other := range files {
			if f.overlaps(other) {
				l.say("volume %q (%s): overlapping paths: %s with %s", volume, kind, f, other)
			}
		}
		files = append(files, f)
	}
	return files
}

func keyFiles(items []corev1.KeyToPath, source string) []file {
	files := make([]file, 0, len(items))
	for _, item := range items {
		files = append(files, file{item.Path, source})
	}
	return files
}

func downwardFiles(items []corev1.DownwardAPIVolumeFile, source string) []file {
	files := make([]file, 0, len(items))
	for i := range items {
		files = append(files, file{items[i].Path, source})
	}
	return files
}

// projectedFiles returns the files that a source of a projected volume names.
func projectedFiles(source *corev1.VolumeProjection) []file {
	switch {
	case source.ConfigMap != nil && source.ConfigMap.Items != nil:
		return keyFiles(source.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", source.ConfigMap.Name))
	case source.Secret != nil && source.Secret.Items != nil:
		return keyFiles(source.Secret.Items, fmt.Sprintf("Secret %q", source.Secret.Name))
	case source.DownwardAPI != nil && source.DownwardAPI.Items != nil:
		return downwardFiles(source.DownwardAPI.Items, "DownwardAPI")
	case source.ServiceAccountToken != nil:
		return []file{{source.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case source.ClusterTrustBundle != nil:
		name := source.ClusterTrustBundle.Name
		if name == nil {
			name = source.ClusterTrustBundle.SignerName
		}
		if name == nil {
			return nil // validation refuses it
		}
		return []file{{source.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", *name)}}
	case source.PodCertificate != nil:
		return []file{
			{source.PodCertificate.CertificateChainPath, "PodCertificate chain"},
			{source.PodCertificate.KeyPath, "PodCertificate key"},
			{source.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle"},
		}
	}
	return nil
}

// PersistentVolume warns about a PersistentVolume.
func PersistentVolume(o, _ *corev1.PersistentVolume) []string {
	var l list
	l.annotation(nil, o.Annotations, corev1.BetaStorageClassAnnotation, oldStorageClass)
	l.annotation(nil, o.Annotations, corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`)
	if o.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		l.at(field.NewPath("spec", "persistentVolumeReclaimPolicy"),
			"The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if a := o.Spec.NodeAffinity; a != nil && a.Required != nil {
		for i := range a.Required.NodeSelectorTerms {
			l.term(field.NewPath("spec", "nodeAffinity", "required", "nodeSelectorTerms").Index(i), &a.Required.NodeSelectorTerms[i], false)
		}
	}
	for _, old := range []struct {
		is        bool
		name, why string
	}{
		{o.Spec.CephFS != nil, "cephfs", goneIn31},
		{o.Spec.PhotonPersistentDisk != nil, "photonPersistentDisk", goneIn16},
		{o.Spec.ScaleIO != nil, "scaleIO", goneIn22},
		{o.Spec.StorageOS != nil, "storageOS", goneIn25},
		{o.Spec.Glusterfs != nil, "glusterfs", goneIn26},
		{o.Spec.RBD != nil, "rbd", goneIn31},
	} {
		if old.is {
			l.at(field.NewPath("spec", old.name), "%s", old.why)
		}
	}
	return l.texts
}

// oldStorageClass is said about the annotation for a storage class.
const oldStorageClass = `deprecated since v1.8; use "storageClassName" attribute instead`

// PersistentVolumeClaim warns about a PersistentVolumeClaim.
func PersistentVolumeClaim(o, _ *corev1.PersistentVolumeClaim) []string {
	var l list
	l.annotation(nil, o.Annotations, corev1.BetaStorageClassAnnotation, oldStorageClass)
	l.claim(func() *field.Path { return field.NewPath("spec") }, &o.Spec)
	return l.texts
}
