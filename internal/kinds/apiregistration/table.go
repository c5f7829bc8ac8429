package apiregistration

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

// apiServiceTable has the columns of kube-aggregator pkg/registry/apiservice/etcd.
func apiServiceTable() kinds.Table {
	return table.Of(func(o *apiregistrationv1.APIService, r table.Meta) []any {
		service := "Local"
		if s := o.Spec.Service; s != nil {
			service = s.Namespace + "/" + s.Name
		}
		return []any{r.Name, service, availability(o), r.Age}
	}, table.Name(), table.Str("Service", "The reference to the service that hosts this API endpoint."),
		table.Str("Available", "Whether this service is available."),
		table.Str("Age", table.Doc(metav1.ObjectMeta{}, "creationTimestamp")))
}

func availability(o *apiregistrationv1.APIService) string {
	for _, c := range o.Status.Conditions {
		if c.Type != apiregistrationv1.Available {
			continue
		}
		if c.Status != apiregistrationv1.ConditionTrue && c.Reason != "" {
			return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
		return string(c.Status)
	}
	return string(apiregistrationv1.ConditionUnknown)
}
