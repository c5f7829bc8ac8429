// Package autoscaling has the kind of the group autoscaling, in two versions: v1 shows the
// autoscalers of v2 with annotations for the fields that it does not have.
package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group: autoscalers are stored as those of v2, and v1 shows them.
func Kinds() []*kinds.Resource {
	v2 := gokind.Of(gokind.Row{
		Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler", Short: []string{"hpa"},
		Categories: []string{gokind.All}, Status: true, Defaults: defaultAutoscaler,
		Generation: kinds.GenerationOfSpec, // since 1.37 (kubernetes#138228)
		Table:      autoscalerTable(),
	}, gokind.Rules[*autoscalingv2.HorizontalPodAutoscaler]{
		Object: validateAutoscaler, Create: validateNewAutoscaler,
		Update: validateAutoscalerUpdate,
	})
	v1 := gokind.ViewOf(v2, gokind.Of(gokind.Row{
		Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler", Short: []string{"hpa"},
		Categories: []string{gokind.All}, Status: true,
		Defaults: defaultAutoscalerV1, Generation: kinds.GenerationOfSpec,
	}, gokind.Rules[*autoscalingv1.HorizontalPodAutoscaler]{}), gokind.View{
		Show: show, Store: store,
		SpecNotes: specNotes(), StatusNotes: statusNotes(),
	})
	return []*kinds.Resource{v2, v1}
}
