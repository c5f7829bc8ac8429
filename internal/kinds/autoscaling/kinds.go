package builtin

import (
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/convert"
	"github.com/gapless-io/gapless/internal/kinds/builtin/defaults"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation"
	"github.com/gapless-io/gapless/internal/wire"
)

// viewKinds are the kinds that show the objects of others, which are among stored.
func viewKinds(stored []*kinds.Resource) []*kinds.Resource {
	of := func(gr string) *kinds.Resource {
		return stored[slices.IndexFunc(stored, func(r *kinds.Resource) bool { return r.GR().String() == gr })]
	}
	return []*kinds.Resource{
		asViewOf(of("events"), kind(row{
			group: "events.k8s.io", version: "v1", kind: "Event", short: []string{"ev"}, createOnUpdate: true,
			fields: eventViewFields(),
		}, rules[*eventsv1.Event]{create: validation.EventV1, update: validation.EventV1Update}), view{
			show: convert.ShowEvent, store: convert.StoreEvent, fields: convert.EventFields(),
		}),
		asViewOf(of("horizontalpodautoscalers.autoscaling"), kind(row{
			group: "autoscaling", version: "v1", kind: "HorizontalPodAutoscaler", short: []string{"hpa"},
			categories: []string{all}, status: true,
			defaults: defaults.OldAutoscaler,
		}, rules[*autoscalingv1.HorizontalPodAutoscaler]{}), view{
			show: convert.ShowAutoscaler, store: convert.StoreAutoscaler,
			specNotes: convert.AutoscalerSpecNotes(), statusNotes: convert.AutoscalerStatusNotes(),
		}),
	}
}

// eventViewFields are the labels of the fields; where they stand, the stored events say.
func eventViewFields() []wire.FieldPath {
	fields := []wire.FieldPath{at("reason"), at("type")}
	for _, label := range slices.Sorted(maps.Keys(convert.EventFields())) {
		fields = append(fields, at(label))
	}
	return fields
}
