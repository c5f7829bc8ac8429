package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateStorageClass validates a StorageClass.
func validateStorageClass(o *storagev1.StorageClass) field.ErrorList {
	at := field.NewPath("provisioner")
	var errs field.ErrorList
	if name := strings.ToLower(o.Provisioner); name == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, check.Invalid(at, name, validation.IsQualifiedName(name))...)
	}
	if o.ReclaimPolicy != nil {
		errs = append(errs, check.OneOfIfSet(nil, "reclaimPolicy", *o.ReclaimPolicy,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	errs = append(errs, checkParameters(o.Parameters)...)
	errs = append(errs, checkTopologies(field.NewPath("allowedTopologies"), o.AllowedTopologies)...)
	return append(errs, check.KnownIfSet(nil, "volumeBindingMode", o.VolumeBindingMode,
		storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
}

// checkTopologies checks terms, none of which may be as another. Upstream takes one without expressions for a repetition
// of as many terms as there are (validateAllowedTopologies).
func checkTopologies(at *field.Path, terms []corev1.TopologySelectorTerm) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, term := range terms {
		at, text := at.Index(i).Child("matchLabelExpressions"), textOf(term)
		errs = append(errs, checkTopology(at, term)...)
		if text == "" || seen[text] {
			errs = append(errs, field.Duplicate(at, ""))
		}
		seen[text] = true
	}
	return errs
}

// textOf is the same for terms with the same values for each key, and "" for one without expressions.
func textOf(term corev1.TopologySelectorTerm) string {
	values := map[string]sets.Set[string]{}
	for _, r := range term.MatchLabelExpressions {
		values[r.Key] = sets.New(r.Values...)
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%q%q", key, sets.List(values[key]))
	}
	return b.String()
}

func checkTopology(at *field.Path, term corev1.TopologySelectorTerm) field.ErrorList {
	var errs field.ErrorList
	keys := map[string]bool{}
	for i, r := range term.MatchLabelExpressions {
		p := at.Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(r.Key, p.Child("key"))...)
		if keys[r.Key] {
			errs = append(errs, field.Duplicate(p.Child("key"), r.Key))
		}
		keys[r.Key] = true
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(p.Child("values"), ""))
		}
		repeated := check.Repeated(r.Values)
		for j, value := range r.Values {
			if repeated[j] {
				errs = append(errs, field.Duplicate(p.Child("values").Index(j), value))
			}
		}
	}
	return errs
}

// validateStorageClassUpdate validates the change of a StorageClass from old to o.
func validateStorageClassUpdate(o, old *storagev1.StorageClass) field.ErrorList {
	errs := check.Unchanged(nil, "parameters", o.Parameters, old.Parameters)
	errs = append(errs, check.Unchanged(nil, "provisioner", o.Provisioner, old.Provisioner)...)
	errs = append(errs, check.Unchanged(nil, "reclaimPolicy", o.ReclaimPolicy, old.ReclaimPolicy)...)
	return append(errs, check.Unchanged(nil, "volumeBindingMode", o.VolumeBindingMode, old.VolumeBindingMode)...)
}
