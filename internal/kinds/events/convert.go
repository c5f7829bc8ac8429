package events

import (
	"maps"

	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// renamed are the members of an event whose name in events.k8s.io/v1 is another one
// (kubernetes pkg/apis/events/v1/conversion.go).
func renamed() map[string]string {
	return map[string]string{
		"involvedObject": "regarding", "message": "note", "source": "deprecatedSource", "count": "deprecatedCount",
		"firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp",
		"reportingComponent": "reportingController",
	}
}

// show makes an event of events.k8s.io/v1 of one of the core group.
func show(content map[string]any) map[string]any {
	shown := maps.Clone(content)
	for stored, name := range renamed() {
		move(shown, stored, name)
	}
	return shown
}

// store makes an event of the core group of one of events.k8s.io/v1.
func store(content map[string]any) map[string]any {
	stored := maps.Clone(content)
	for name, shown := range renamed() {
		move(stored, shown, name)
	}
	return stored
}

func move(object tree.Object, from, to string) {
	if value, has := object[from]; has {
		delete(object, from)
		object[to] = value
	}
}

// storedFields are the selectable fields of an event of events.k8s.io/v1, and by
// which label the stored event has them.
func storedFields() map[string]string {
	return map[string]string{
		"regarding.kind": "involvedObject.kind", "regarding.namespace": "involvedObject.namespace",
		"regarding.name": "involvedObject.name", "regarding.uid": "involvedObject.uid",
		"regarding.apiVersion": "involvedObject.apiVersion", "regarding.resourceVersion": "involvedObject.resourceVersion",
		"regarding.fieldPath": "involvedObject.fieldPath", "reportingController": "reportingComponent",
	}
}
