// Package scheduling has the kinds of the group scheduling.k8s.io.
package scheduling

import (
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass", Plural: "priorityclasses",
			Short: []string{"pc"}, Cluster: true, Defaults: defaultPriorityClass,
			Generation: kinds.GenerationOne, Table: priorityClassTable(),
		}, gokind.Rules[*schedulingv1.PriorityClass]{
			Create: validateNewPriorityClass, Update: validatePriorityClassUpdate,
		}),
	}
}
