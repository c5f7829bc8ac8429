package podrules

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/volumerules"
)

// podVolumes are the valid volumes of a pod, by name.
type podVolumes map[string]*corev1.VolumeSource

// checkPodVolumes checks the volumes of a pod, and returns the valid ones.
func checkPodVolumes(at *field.Path, list []corev1.Volume) (podVolumes, field.ErrorList) {
	var all field.ErrorList
	valid := make(podVolumes, len(list))
	for i := range list {
		v, p := &list[i], at.Index(i)
		errs := checkVolumeSource(p, &v.VolumeSource)
		errs = append(errs, check.Required(p, "name", v.Name, kinds.LabelName)...)
		if valid[v.Name] != nil {
			errs = append(errs, field.Duplicate(p.Child("name"), v.Name))
		}
		if len(errs) == 0 {
			valid[v.Name] = &v.VolumeSource
		}
		all = append(all, errs...)
	}
	return valid, all
}

// checkVolumeSource checks that a volume has exactly one source, and that.
func checkVolumeSource(at *field.Path, v *corev1.VolumeSource) field.ErrorList {
	switch n := check.Sources(*v); {
	case n == 0:
		return field.ErrorList{field.Required(at, "must specify a volume type")}
	case n > 1:
		return severalSources(at, check.SourceNames(*v))
	}
	switch {
	case v.EmptyDir != nil:
		return checkEmptyDir(at.Child("emptyDir"), v.EmptyDir)
	case v.PersistentVolumeClaim != nil:
		return check.Required(at.Child("persistentVolumeClaim"), "claimName", v.PersistentVolumeClaim.ClaimName, nil)
	case v.ConfigMap != nil:
		errs := check.Required(at.Child("configMap"), "name", v.ConfigMap.Name, nil)
		return append(errs, checkKeyFiles(at.Child("configMap"), v.ConfigMap.DefaultMode, v.ConfigMap.Items)...)
	case v.Secret != nil:
		errs := check.Required(at.Child("secret"), "secretName", v.Secret.SecretName, nil)
		return append(errs, checkKeyFiles(at.Child("secret"), v.Secret.DefaultMode, v.Secret.Items)...)
	case v.DownwardAPI != nil:
		errs := fileMode(at.Child("downwardAPI"), "defaultMode", v.DownwardAPI.DefaultMode)
		return append(errs, checkDownward(at.Child("downwardAPI"), v.DownwardAPI.Items)...)
	case v.Projected != nil:
		return checkProjected(at.Child("projected"), v.Projected)
	case v.Image != nil:
		errs := check.Required(at.Child("image"), "reference", v.Image.Reference, nil)
		return append(errs,
			check.OneOf(at.Child("image"), "pullPolicy", v.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent,
				corev1.PullNever)...)
	case v.Ephemeral != nil:
		return checkEphemeralVolume(at.Child("ephemeral", "volumeClaimTemplate"), v.Ephemeral.VolumeClaimTemplate)
	}
	return volumerules.OfPod(at, v)
}

// severalSources refuses all sources but the first one, which is emptyDir if it is among
// them. Upstream writes two names in its own way.
func severalSources(at *field.Path, names []string) field.ErrorList {
	first := max(slices.Index(names, "emptyDir"), 0)
	var errs field.ErrorList
	for _, name := range slices.Delete(names, first, first+1) {
		switch name {
		case "cephfs":
			name = "cephFS"
		case "downwardAPI":
			name = "downwarAPI"
		}
		errs = append(errs, field.Forbidden(at.Child(name), "may not specify more than 1 volume type"))
	}
	return errs
}

func checkEphemeralVolume(at *field.Path, template *corev1.PersistentVolumeClaimTemplate) field.ErrorList {
	if template == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	return ClaimSpec(at.Child("spec"), &template.Spec)
}

func checkEmptyDir(at *field.Path, dir *corev1.EmptyDirVolumeSource) field.ErrorList {
	if dir.SizeLimit != nil && dir.SizeLimit.Sign() < 0 {
		return field.ErrorList{field.Forbidden(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")}
	}
	return nil
}

// fileMode checks the permissions of files, if they are given.
func fileMode(at *field.Path, name string, mode *int32) field.ErrorList {
	if mode == nil || *mode >= 0 && *mode <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child(name), *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
}

// checkKeyFiles checks the files of a volume, which are the keys of a config map or secret.
func checkKeyFiles(at *field.Path, mode *int32, items []corev1.KeyToPath) field.ErrorList {
	errs := fileMode(at, "defaultMode", mode)
	for i, item := range items {
		p := at.Child("items").Index(i)
		errs = append(errs, check.Required(p, "key", item.Key, nil)...)
		errs = append(errs, filePath(p, "path", item.Path)...)
		errs = append(errs, fileMode(p, "mode", item.Mode)...)
	}
	return errs
}

// filePath checks the path of a file of a volume.
func filePath(at *field.Path, name, text string) field.ErrorList {
	errs := check.Required(at, name, text, nil)
	errs = append(errs, check.DescendingPath(at, name, text)...)
	if strings.HasPrefix(text, "..") && !strings.HasPrefix(text, "../") {
		errs = append(errs, field.Invalid(at.Child(name), text, "must not start with '..'"))
	}
	return errs
}

// checkDownward checks files with fields of the pod. Upstream leaves their index out.
func checkDownward(at *field.Path, files []corev1.DownwardAPIVolumeFile) field.ErrorList {
	var errs field.ErrorList
	for _, file := range files {
		errs = append(errs, filePath(at, "path", file.Path)...)
		errs = append(errs, fileMode(at, "mode", file.Mode)...)
		switch {
		case file.FieldRef != nil:
			errs = append(errs, checkFieldRef(at.Child("fieldRef"), file.FieldRef, volumeFields())...)
			if file.ResourceFieldRef != nil {
				errs = append(errs,
					field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
			}
		case file.ResourceFieldRef == nil:
			errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
		case file.ResourceFieldRef.ContainerName == "":
			errs = append(errs, field.Required(at.Child("resourceFieldRef", "containerName"), ""))
		default:
			errs = append(errs, checkResourceRef(at.Child("resourceFieldRef"), file.ResourceFieldRef)...)
		}
	}
	return errs
}

func checkProjected(at *field.Path, v *corev1.ProjectedVolumeSource) field.ErrorList {
	errs := fileMode(at, "defaultMode", v.DefaultMode)
	paths := map[string]bool{}
	once := func(path string) {
		if path != "" && paths[path] {
			errs = append(errs, field.Invalid(at, path, "conflicting duplicate paths"))
		}
		paths[path] = true
	}
	for i := range v.Sources {
		source, p := &v.Sources[i], at.Child("sources").Index(i)
		if check.Sources(*source) > 1 {
			errs = append(errs, field.Forbidden(p, "may not specify more than 1 volume type per source"))
		}
		if s := source.Secret; s != nil {
			errs = append(errs, check.Required(p.Child("secret"), "name", s.Name, nil)...)
			errs = append(errs, checkKeyFiles(p.Child("secret"), nil, s.Items)...)
			for _, item := range s.Items {
				once(item.Path)
			}
		}
		if c := source.ConfigMap; c != nil {
			errs = append(errs, check.Required(p.Child("configMap"), "name", c.Name, nil)...)
			errs = append(errs, checkKeyFiles(p.Child("configMap"), nil, c.Items)...)
			for _, item := range c.Items {
				once(item.Path)
			}
		}
		if d := source.DownwardAPI; d != nil {
			errs = append(errs, checkDownward(p.Child("downwardAPI"), d.Items)...)
			for _, item := range d.Items {
				once(item.Path)
			}
		}
		if token := source.ServiceAccountToken; token != nil {
			// Upstream's path of the token's path is that of the volume.
			errs = append(errs, filePath(at, "path", token.Path)...)
			errs = append(errs, tokenLifetime(p.Child("serviceAccountToken", "expirationSeconds"), token.ExpirationSeconds)...)
		}
	}
	return errs
}

func tokenLifetime(at *field.Path, seconds *int64) field.ErrorList {
	const shortest, longest = 600, 1 << 32 // s: validateProjectionSources of pkg/apis/core/validation
	switch {
	case seconds == nil:
		return field.ErrorList{field.Required(at, "")}
	case *seconds < shortest:
		return field.ErrorList{field.Invalid(at, *seconds, "may not specify a duration less than 10 minutes")}
	case *seconds > longest:
		return field.ErrorList{field.Invalid(at, *seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}
