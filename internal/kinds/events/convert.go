// Package convert turns objects of one API into those of another that shows the
// same ones.
//
// It has two nouns. An event is stored as the core group has it, and shown by
// events.k8s.io/v1 under other names. An autoscaler is stored as autoscaling/v2,
// and shown by autoscaling/v1 with annotations for the fields that v1 does not have. No
// function changes its argument; results share parts with it.
package convert

import "maps"

// tree is a decoded JSON object.
type tree = map[string]any

// renamed are the members of an event whose name in events.k8s.io/v1 is another one
// (kubernetes pkg/apis/events/v1/conversion.go).
func renamed() map[string]string {
	return map[string]string{
		"involvedObject": "regarding", "message": "note", "source": "deprecatedSource", "count": "deprecatedCount",
		"firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp",
		"reportingComponent": "reportingController",
	}
}

// ShowEvent makes an event of events.k8s.io/v1 of one of the core group.
func ShowEvent(content map[string]any) map[string]any {
	shown := maps.Clone(content)
	for stored, name := range renamed() {
		move(shown, stored, name)
	}
	return shown
}

// StoreEvent makes an event of the core group of one of events.k8s.io/v1.
func StoreEvent(content map[string]any) map[string]any {
	stored := maps.Clone(content)
	for name, shown := range renamed() {
		move(stored, shown, name)
	}
	return stored
}

func move(object tree, from, to string) {
	if value, has := object[from]; has {
		delete(object, from)
		object[to] = value
	}
}

// EventFields are the selectable fields of an event of events.k8s.io/v1, and by
// which label the stored event has them.
func EventFields() map[string]string {
	return map[string]string{
		"regarding.kind": "involvedObject.kind", "regarding.namespace": "involvedObject.namespace",
		"regarding.name": "involvedObject.name", "regarding.uid": "involvedObject.uid",
		"regarding.apiVersion": "involvedObject.apiVersion", "regarding.resourceVersion": "involvedObject.resourceVersion",
		"regarding.fieldPath": "involvedObject.fieldPath", "reportingController": "reportingComponent",
	}
}
