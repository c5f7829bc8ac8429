package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnStorageClass warns about a StorageClass.
func warnStorageClass(o, _ *storagev1.StorageClass) []string {
	var l warn.List
	for i := range o.AllowedTopologies {
		for j, r := range o.AllowedTopologies[i].MatchLabelExpressions {
			if why := warn.OldLabel(r.Key); why != "" {
				l.At(field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key"), "%s", why)
			}
		}
	}
	return l.Texts()
}

// warnCSIStorageCapacity warns about a CSIStorageCapacity.
func warnCSIStorageCapacity(o, _ *storagev1.CSIStorageCapacity) []string {
	var l warn.List
	l.Selector(field.NewPath("nodeTopology"), o.NodeTopology)
	return l.Texts()
}

// warnCSIDriver warns about a new CSIDriver, or about a change of the tokens that it asks for.
func warnCSIDriver(o, old *storagev1.CSIDriver) []string {
	tokens := o.Spec.TokenRequests
	if len(tokens) == 0 || o.Spec.ServiceAccountTokenInSecrets != nil ||
		old != nil && equality.Semantic.DeepEqual(old.Spec.TokenRequests, tokens) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, " +
		"set to true to prevent possible logging of tokens in volume attributes"}
}
