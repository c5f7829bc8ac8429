package podrules

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// checkEnv checks the environment variables of a container.
func checkEnv(container *field.Path, vars []corev1.EnvVar) field.ErrorList {
	if len(vars) == 0 {
		return nil
	}
	var errs field.ErrorList
	at := container.Child("env")
	for i := range vars {
		env, p := &vars[i], at.Index(i)
		errs = append(errs, check.Required(p, "name", env.Name, validation.IsRelaxedEnvVarName)...)
		if env.ValueFrom != nil {
			errs = append(errs, checkValueFrom(p.Child("valueFrom"), env)...)
		}
	}
	return errs
}

func checkValueFrom(at *field.Path, env *corev1.EnvVar) field.ErrorList {
	from := env.ValueFrom
	var errs field.ErrorList
	sources := 0
	if ref := from.FieldRef; ref != nil {
		sources++
		errs = append(errs, checkFieldRef(at.Child("fieldRef"), ref, envFields())...)
	}
	if ref := from.ResourceFieldRef; ref != nil {
		sources++
		errs = append(errs, checkResourceRef(at.Child("resourceFieldRef"), ref)...)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		sources++
		errs = append(errs, checkKeyRef(at.Child("configMapKeyRef"), ref.Name, ref.Key)...)
	}
	if ref := from.SecretKeyRef; ref != nil {
		sources++
		errs = append(errs, checkKeyRef(at.Child("secretKeyRef"), ref.Name, ref.Key)...)
	}
	if ref := from.FileKeyRef; ref != nil {
		sources++
		errs = append(errs, checkFileKey(at.Child("fileKeyRef"), ref)...)
	}
	switch {
	case sources == 0:
		errs = append(errs,
			field.Invalid(at, "",
				"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case env.Value != "":
		errs = append(errs, field.Invalid(at, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func checkKeyRef(at *field.Path, name, key string) field.ErrorList {
	errs := check.Invalid(at.Child("name"), name, kinds.SubdomainName(name))
	return append(errs, check.Required(at, "key", key, validation.IsConfigMapKey)...)
}

func checkFileKey(at *field.Path, ref *corev1.FileKeySelector) field.ErrorList {
	errs := check.Required(at, "key", ref.Key, validation.IsRelaxedEnvVarName)
	errs = append(errs, check.Required(at, "volumeName", ref.VolumeName, kinds.LabelName)...)
	errs = append(errs, check.Required(at, "path", ref.Path, nil)...)
	return append(errs, check.NoBacksteps(at, "path", ref.Path)...)
}

// checkEnvFrom checks the sources of many environment variables.
func checkEnvFrom(container *field.Path, sources []corev1.EnvFromSource) field.ErrorList {
	if len(sources) == 0 {
		return nil
	}
	var errs field.ErrorList
	at := container.Child("envFrom")
	for i, from := range sources {
		p := at.Index(i)
		if from.Prefix != "" {
			errs = append(errs, check.Invalid(p.Child("prefix"), from.Prefix, validation.IsRelaxedEnvVarName(from.Prefix))...)
		}
		if from.ConfigMapRef != nil {
			errs = append(errs, check.Required(p.Child("configMapRef"), "name", from.ConfigMapRef.Name, kinds.SubdomainName)...)
		}
		if from.SecretRef != nil {
			errs = append(errs, check.Required(p.Child("secretRef"), "name", from.SecretRef.Name, kinds.SubdomainName)...)
		}
		switch {
		case from.ConfigMapRef == nil && from.SecretRef == nil:
			errs = append(errs, field.Invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
		case from.ConfigMapRef != nil && from.SecretRef != nil:
			errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

// envFields are the fields of a pod that a variable can have the value of.
func envFields() []string {
	return []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
}

// volumeFields are the fields of a pod that a file can have the value of.
func volumeFields() []string {
	return []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
}

// checkFieldRef checks a reference to one of some fields of the pod, or to one of its
// labels or annotations.
func checkFieldRef(at *field.Path, ref *corev1.ObjectFieldSelector, fields []string) field.ErrorList {
	switch {
	case ref.APIVersion == "":
		return field.ErrorList{field.Required(at.Child("apiVersion"), "")}
	case ref.FieldPath == "":
		return field.ErrorList{field.Required(at.Child("fieldPath"), "")}
	}
	path, key, subscripted := cutSubscript(ref.FieldPath)
	if why := noPodField(ref.APIVersion, path, subscripted); why != "" {
		return field.ErrorList{field.Invalid(at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: "+why)}
	}
	switch {
	case subscripted && path == "metadata.annotations":
		key = strings.ToLower(key)
		return check.Invalid(at, key, validation.IsQualifiedName(key))
	case subscripted:
		return check.Invalid(at, key, validation.IsQualifiedName(key))
	case !slices.Contains(fields, path):
		return field.ErrorList{field.NotSupported(at.Child("fieldPath"), path, fields)}
	}
	return nil
}

// noPodField says why there is no such field in a pod; "" when there is.
func noPodField(version, path string, subscripted bool) string {
	if version != "v1" {
		return "unsupported pod version: " + version
	}
	switch path {
	case "metadata.annotations", "metadata.labels":
		return ""
	case "spec.restartPolicy", "spec.schedulerName", "status.phase":
	default:
		if !slices.Contains(envFields(), path) {
			return "field label not supported: " + path
		}
	}
	if subscripted {
		return "field label does not support subscript: " + path
	}
	return ""
}

// cutSubscript splits metadata.labels['key'] into metadata.labels and key.
func cutSubscript(path string) (before, key string, found bool) {
	inner, closed := strings.CutSuffix(path, "']")
	before, key, found = strings.Cut(inner, "['")
	if !closed || !found || before == "" {
		return path, "", false
	}
	return before, key, true
}

// checkResourceRef checks a reference to a limit or request of a container.
func checkResourceRef(at *field.Path, ref *corev1.ResourceFieldSelector) field.ErrorList {
	resources := []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory",
		"requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
	var errs field.ErrorList
	huge := strings.HasPrefix(ref.Resource, "requests.hugepages-") || strings.HasPrefix(ref.Resource, "limits.hugepages-")
	if !huge {
		errs = append(errs, check.OneOf(at, "resource", ref.Resource, resources...)...)
	}
	if ref.Divisor.IsZero() || !huge && !slices.Contains(resources, ref.Resource) {
		return errs
	}
	divisor := ref.Divisor.String()
	if strings.HasSuffix(ref.Resource, ".cpu") {
		if divisor != "1m" && divisor != "1" {
			errs = append(errs,
				field.Invalid(at.Child("divisor"), ref.Resource,
					"only divisor's values 1m and 1 are supported with the cpu resource"))
		}
		return errs
	}
	if units := "1 1k 1M 1G 1T 1P 1E 1Ki 1Mi 1Gi 1Ti 1Pi 1Ei"; !slices.Contains(strings.Fields(units), divisor) {
		errs = append(errs,
			field.Invalid(at.Child("divisor"), ref.Resource,
				"only divisor's values "+strings.ReplaceAll(units, " ", ", ")+" are supported with the "+
					resourceWord(ref.Resource)+" resource"))
	}
	return errs
}

func resourceWord(resource string) string {
	_, name, _ := strings.Cut(resource, ".")
	switch {
	case name == "memory":
		return name
	case strings.HasPrefix(name, "hugepages-"):
		return "hugepages"
	}
	return "local ephemeral storage"
}
