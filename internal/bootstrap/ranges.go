package bootstrap

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
)

// serviceRanges is the ServiceCIDR of the configured ranges (pkg/controlplane/controller/defaultservicecidr). One with
// other ranges stays as it is, but for a second range of the other IP family that is added to it.
func (c *Controller) serviceRanges() []object {
	if len(c.ranges) == 0 {
		return nil
	}
	var texts []string
	for _, r := range c.ranges {
		texts = append(texts, r.String())
	}
	return []object{{
		resource: kinds.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"}, name: serviceName,
		wanted: &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: serviceName}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: texts},
		},
		correct: correction(func(there *networkingv1.ServiceCIDR) (bool, error) {
			if len(texts) != 2 || len(there.Spec.CIDRs) != 1 || there.Spec.CIDRs[0] != texts[0] {
				return false, nil
			}
			there.Spec.CIDRs = texts
			return true, nil
		}),
		status: correction(func(there *networkingv1.ServiceCIDR) (bool, error) {
			ready := meta.FindStatusCondition(there.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
			if there.DeletionTimestamp != nil || !slices.Equal(there.Spec.CIDRs, texts) ||
				ready != nil && ready.Status != metav1.ConditionUnknown {
				return false, nil
			}
			meta.SetStatusCondition(&there.Status.Conditions, metav1.Condition{
				Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue,
				Message: "Kubernetes default Service CIDR is ready",
			})
			return true, nil
		}),
	}}
}
