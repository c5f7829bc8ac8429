package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// What is said about volumes of drivers that are gone.
const (
	GoneIn16 = "deprecated in v1.11, non-functional in v1.16+"
	GoneIn22 = "deprecated in v1.16, non-functional in v1.22+"
	GoneIn25 = "deprecated in v1.22, non-functional in v1.25+"
	GoneIn26 = "deprecated in v1.25, non-functional in v1.26+"
	GoneIn31 = "deprecated in v1.28, non-functional in v1.31+"
)

// oldVolume returns what is said about the source of a volume, and its field; "" if nothing is.
func oldVolume(v *corev1.Volume) (name, why string) {
	switch {
	case v.PhotonPersistentDisk != nil:
		return "photonPersistentDisk", GoneIn16
	case v.GitRepo != nil:
		return "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"
	case v.ScaleIO != nil:
		return "scaleIO", GoneIn22
	case v.Flocker != nil:
		return "flocker", GoneIn25
	case v.StorageOS != nil:
		return "storageOS", GoneIn25
	case v.Quobyte != nil:
		return "quobyte", GoneIn25
	case v.Glusterfs != nil:
		return "glusterfs", GoneIn26
	case v.CephFS != nil:
		return "cephfs", GoneIn31
	case v.RBD != nil:
		return "rbd", GoneIn31
	}
	return "", ""
}

// volumes warns about volumes of drivers that are gone, and about claims in volumes.
func (l list) volumes(at *field.Path, volumes []corev1.Volume) {
	for i := range volumes {
		if name, why := oldVolume(&volumes[i]); name != "" {
			l.At(at.Child("spec", "volumes").Index(i).Child(name), "%s", why)
		}
		if e := volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			WarnClaim(l.List, func() *field.Path {
				return at.Child("spec", "volumes").Index(i).Child("ephemeral", "volumeClaimTemplate", "spec")
			}, &e.VolumeClaimTemplate.Spec)
		}
	}
}

// WarnClaim warns about the spec of a claim of a volume.
func WarnClaim(l *warn.List, at func() *field.Path, spec *corev1.PersistentVolumeClaimSpec) {
	l.WholeBytes(
		func() *field.Path { return at().Child("resources", "requests") },
		spec.Resources.Requests,
		corev1.ResourceStorage,
	)
	l.WholeBytes(func() *field.Path { return at().Child("resources", "limits") }, spec.Resources.Limits, corev1.ResourceStorage)
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
func (l list) overlappingPaths(volumes []corev1.Volume) {
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
					l.Say("volume %q (Projected) has no sources provided", v.Name)
				}
				all = l.overlaps(v.Name, "Projected", all, projectedFiles(source))
			}
		}
	}
}

// overlaps warns about further files of a volume, besides earlier ones, and returns all of them.
func (l list) overlaps(volume, kind string, files, further []file) []file {
	for _, f := range further {
		f.path = strings.TrimRight(f.path, "/")
		if !l.Spend(len(files)) {
			return files
		}
		for _, other := range files {
			if f.overlaps(other) {
				l.Say("volume %q (%s): overlapping paths: %s with %s", volume, kind, f, other)
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
