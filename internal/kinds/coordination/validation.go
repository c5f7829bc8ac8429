package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateLease validates a Lease.
func validateLease(o *coordinationv1.Lease) field.ErrorList {
	spec := &o.Spec
	errs := check.Positive(check.Spec(), "leaseDurationSeconds", spec.LeaseDurationSeconds)
	errs = append(errs, check.NotNegative(check.Spec(), "leaseTransitions", spec.LeaseTransitions)...)
	if spec.HolderIdentity != nil && *spec.HolderIdentity == "" && spec.PreferredHolder != nil {
		errs = append(errs, field.Invalid(check.Spec("holderIdentity"), "", "must not be empty"))
	}
	return errs
}
