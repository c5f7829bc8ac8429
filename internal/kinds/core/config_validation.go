package core

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// maxPayload is 1 MiB: MaxSecretSize of pkg/apis/core/types.go, for config maps too.
const maxPayload = 1 << 20

// validateConfigMap validates a ConfigMap.
func validateConfigMap(o *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range o.Data {
		errs = append(errs, checkKey("data", key)...)
		if _, both := o.BinaryData[key]; both {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range o.BinaryData {
		errs = append(errs, checkKey("binaryData", key)...)
		size += len(value)
	}
	if size > maxPayload {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxPayload))
	}
	return errs
}

// checkKey checks a key of the data of a ConfigMap or a Secret.
func checkKey(data, key string) field.ErrorList {
	if plainKey(key) {
		return nil
	}
	return check.Invalid(field.NewPath(data).Key(key), key, validation.IsConfigMapKey(key))
}

// plainKey reports whether a key certainly is what validation.IsConfigMapKey accepts, without its
// regular expression.
func plainKey(key string) bool {
	if key == "" || key[0] == '.' || len(key) > validation.DNS1123SubdomainMaxLength {
		return false
	}
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// frozen is upstream's error for a field that `immutable: true` protects.
func frozen(at *field.Path) *field.Error {
	return field.Forbidden(at, "field is immutable when `immutable` is set")
}

// validateConfigMapUpdate validates the change of a ConfigMap from old to o.
func validateConfigMapUpdate(o, old *corev1.ConfigMap) field.ErrorList {
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

// validateSecret validates a Secret.
func validateSecret(o *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	data := field.NewPath("data")
	size := 0
	for key, value := range o.Data {
		errs = append(errs, checkKey("data", key)...)
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
	default: // a type that upstream does not know
	}
	return errs
}

// validateSecretUpdate validates the change of a Secret from old to o.
func validateSecretUpdate(o, old *corev1.Secret) field.ErrorList {
	errs := check.Unchanged(nil, "type", o.Type, old.Type)
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
