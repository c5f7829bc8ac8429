// Package events has the kind of the group events.k8s.io, which shows the events of the core group
// under other names of their fields.
package events

import (
	"maps"
	"slices"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/wire"
)

// Kinds returns the kinds of the group, which show the events of the core group.
func Kinds(stored *kinds.Resource) []*kinds.Resource {
	return []*kinds.Resource{gokind.ViewOf(stored, gokind.Of(gokind.Row{
		Group: "events.k8s.io", Version: "v1", Kind: "Event", Short: []string{"ev"}, CreateOnUpdate: true,
		Fields:        fields(),
		AnyFinalizers: true, NoDependents: true,
	}, gokind.Rules[*eventsv1.Event]{
		Object: validateEvent, Create: validateNewEvent, Update: validateEventUpdate,
	}), gokind.View{
		Show: show, Store: store, Fields: storedFields(),
	})}
}

// fields are the labels of the fields; where they stand, the stored events say.
func fields() []wire.FieldPath {
	fields := []wire.FieldPath{gokind.At("reason"), gokind.At("type")}
	for _, label := range slices.Sorted(maps.Keys(storedFields())) {
		fields = append(fields, gokind.At(label))
	}
	return fields
}
