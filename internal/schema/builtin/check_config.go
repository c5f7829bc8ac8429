package builtin

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxPayload is 1 MiB: MaxSecretSize of pkg/apis/core/types.go, for config maps too.
const maxPayload = 1 << 20

func checkConfigMap(o *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range o.Data {
		errs = append(errs, invalidBecause(field.NewPath("data").Key(key), key, validation.IsConfigMapKey(key))...)
		if _, both := o.BinaryData[key]; both {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range o.BinaryData {
		errs = append(errs, invalidBecause(field.NewPath("binaryData").Key(key), key, validation.IsConfigMapKey(key))...)
		size += len(value)
	}
	if size > maxPayload {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxPayload))
	}
	return errs
}

// frozen is upstream's text for what `immutable: true` protects.
func frozen(at *field.Path) *field.Error {
	return field.Forbidden(at, "field is immutable when `immutable` is set")
}

func keepConfigMap(o, old *corev1.ConfigMap) field.ErrorList {
	if old.Immutable == nil || !*old.Immutable {
		return nil
	}
	var errs field.ErrorList
	if o.Immutable == nil || !*o.Immutable {
		errs = append(errs, frozen(field.NewPath("immutable")))
	}
	if !equality.Semantic.DeepEqual(o.Data, old.Data) {
		errs = append(errs, frozen(field.NewPath("data")))
	}
	if !equality.Semantic.DeepEqual(o.BinaryData, old.BinaryData) {
		errs = append(errs, frozen(field.NewPath("binaryData")))
	}
	return errs
}

func checkSecret(o *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	data := field.NewPath("data")
	size := 0
	for key, value := range o.Data {
		errs = append(errs, invalidBecause(data.Key(key), key, validation.IsConfigMapKey(key))...)
		size += len(value)
	}
	if size > maxPayload {
		errs = append(errs, field.TooLong(data, "", maxPayload))
	}
	need := func(keys ...string) {
		for _, key := range keys {
			if _, ok := o.Data[key]; !ok {
				errs = append(errs, field.Required(data.Key(key), ""))
			}
		}
	}
	needJSON := func(key string) {
		need(key)
		if value, ok := o.Data[key]; ok && !json.Valid(value) {
			errs = append(errs, field.Invalid(data.Key(key), "<secret contents redacted>", "must be valid JSON"))
		}
	}
	switch o.Type {
	case corev1.SecretTypeServiceAccountToken:
		if o.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		needJSON(corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		needJSON(corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		_, user := o.Data[corev1.BasicAuthUsernameKey]
		_, password := o.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			need(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(o.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(data.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeTLS:
		need(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	case corev1.SecretTypeOpaque, corev1.SecretTypeBootstrapToken: // any keys
	default: // a type of somebody else's
	}
	return errs
}

func keepSecret(o, old *corev1.Secret) field.ErrorList {
	errs := kept(field.NewPath("type"), o.Type, old.Type)
	if old.Immutable == nil || !*old.Immutable {
		return errs
	}
	if o.Immutable == nil || !*o.Immutable {
		errs = append(errs, frozen(field.NewPath("immutable")))
	}
	if !equality.Semantic.DeepEqual(o.Data, old.Data) {
		errs = append(errs, frozen(field.NewPath("data")))
	}
	return errs
}

func checkEvent(o *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("involvedObject", "namespace")
	switch ns := o.InvolvedObject.Namespace; {
	case ns == "" && o.Namespace != "default" && o.Namespace != "kube-system":
		// Events of cluster-scoped objects are kept in these two namespaces.
		errs = append(errs, field.Invalid(at, ns, "does not match event.namespace"))
	case ns != "" && ns != o.Namespace:
		errs = append(errs, field.Invalid(at, ns, "does not match event.namespace"))
	}
	if o.Series != nil && o.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), o.Series.Count, "should be at least 2"))
	}
	return errs
}

func checkResourceQuota(o *corev1.ResourceQuota) field.ErrorList {
	return checkAmounts(specPath("hard"), o.Spec.Hard)
}

// accessModes checks the access modes of a volume or a claim.
func accessModes(at *field.Path, modes []corev1.PersistentVolumeAccessMode) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(at, "at least 1 access mode is required")}
	}
	var errs field.ErrorList
	alone := false
	for _, mode := range modes {
		alone = alone || mode == corev1.ReadWriteOncePod
		errs = append(errs, oneOf(at, mode, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)...)
	}
	if alone && len(modes) > 1 {
		errs = append(errs, field.Forbidden(at, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func checkVolume(o *corev1.PersistentVolume) field.ErrorList {
	spec := &o.Spec
	errs := accessModes(specPath("accessModes"), spec.AccessModes)
	if len(spec.Capacity) == 0 {
		errs = append(errs, field.Required(specPath("capacity"), ""))
	} else if _, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		errs = append(errs, field.NotSupported(specPath("capacity"), spec.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for name, amount := range spec.Capacity {
		if amount.Sign() <= 0 {
			errs = append(errs, field.Invalid(specPath("capacity").Key(string(name)), amount.String(), "must be greater than zero"))
		}
	}
	errs = append(errs, oneOfIfSet(specPath("persistentVolumeReclaimPolicy"), spec.PersistentVolumeReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	switch n := countSources(spec.PersistentVolumeSource); {
	case n == 0:
		errs = append(errs, field.Required(specPath(), "must specify a volume type"))
	case n > 1:
		errs = append(errs, field.Forbidden(specPath(), "may not specify more than 1 volume type"))
	}
	return errs
}

func keepVolume(o, old *corev1.PersistentVolume) field.ErrorList {
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(o.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(specPath("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	return append(errs, kept(specPath("volumeMode"), o.Spec.VolumeMode, old.Spec.VolumeMode)...)
}

func checkClaim(o *corev1.PersistentVolumeClaim) field.ErrorList {
	spec := &o.Spec
	errs := accessModes(specPath("accessModes"), spec.AccessModes)
	errs = append(errs, labelSelector(specPath("selector"), spec.Selector)...)
	at := specPath("resources").Key(string(corev1.ResourceStorage))
	if amount, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(at, ""))
	} else if amount.Sign() <= 0 {
		errs = append(errs, field.Invalid(specPath("resources", "requests").Key(string(corev1.ResourceStorage)), amount.String(), "must be greater than zero"))
	}
	return errs
}

// keepClaim lets a claim be bound, and grow once it is.
func keepClaim(o, old *corev1.PersistentVolumeClaim) field.ErrorList {
	spec, before := o.Spec.DeepCopy(), &old.Spec
	if before.VolumeName == "" {
		spec.VolumeName = ""
	}
	if before.StorageClassName == nil {
		spec.StorageClassName = nil
	}
	bound := old.Status.Phase == corev1.ClaimBound
	if bound {
		now, was := spec.Resources.Requests[corev1.ResourceStorage], before.Resources.Requests[corev1.ResourceStorage]
		if now.Cmp(was) < 0 && now.Cmp(old.Status.Capacity[corev1.ResourceStorage]) <= 0 {
			return field.ErrorList{field.Forbidden(specPath("resources", "requests", "storage"), "field can not be less than status.capacity")}
		}
		spec.Resources.Requests = before.Resources.Requests
		spec.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	if equality.Semantic.DeepEqual(spec, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(specPath(), fmt.Sprintf(
		"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims (this claim is %s)", phase(old.Status.Phase)))}
}

func phase(p corev1.PersistentVolumeClaimPhase) string {
	if p == "" {
		return string(corev1.ClaimPending)
	}
	return string(p)
}
