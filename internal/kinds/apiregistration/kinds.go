// Package apiregistration has the kind of the group apiregistration.k8s.io: which server serves a version of a
// group. What an APIService does is in package aggregator.
package apiregistration

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	// The name rule (version.group) is part of the kind's own validation.
	anyName := func(string) []string { return nil }
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService", Categories: []string{"api-extensions"},
			Cluster: true, Status: true, NeedsVersion: true, Name: anyName, AnyFinalizers: true,
			Defaults: defaultAPIService, Complete: completeAPIService, StatusKeeps: gokind.KeptMetadata(),
			Table: apiServiceTable(),
		}, gokind.Rules[*apiregistrationv1.APIService]{
			Create: validateAPIService, Update: validateAPIServiceUpdate, Status: validateAPIServiceStatus,
		}),
	}
}

// defaultAPIService fills in the defaults of an APIService (kube-aggregator pkg/apis/apiregistration/v1/defaults.go).
func defaultAPIService(o tree.Object) {
	if service := tree.Child(tree.Child(o, "spec"), "service"); service != nil {
		tree.SetPointer(service, "port", int64(443))
	}
}

// LocalCondition returns the condition of an APIService of a group and version that this server serves itself, as of
// now (kube-aggregator pkg/apis/apiregistration/v1/helper).
func LocalCondition() apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: "Local", Message: "Local APIServices are always available",
	}
}

// completeAPIService gives a new APIService without a service its condition: upstream's strategy does so.
func completeAPIService(u, old tree.Object) error {
	if old != nil || tree.Child(tree.Child(u, "spec"), "service") != nil {
		return nil
	}
	c := LocalCondition()
	u["status"] = tree.Object{"conditions": []any{tree.Object{
		"type": string(c.Type), "status": string(c.Status), "reason": c.Reason, "message": c.Message,
		"lastTransitionTime": c.LastTransitionTime.UTC().Format(time.RFC3339),
	}}}
	return nil
}
