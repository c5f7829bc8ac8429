package printers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resources "github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

func core(resource string) (Printer, bool) {
	switch resource {
	case "pods":
		return pods(), true
	case "nodes":
		return nodes(), true
	case "services":
		return services(), true
	case "endpoints":
		return of(endpointsCells, name(), str("Endpoints", doc(corev1.Endpoints{}, "subsets")), age()), true //nolint:staticcheck // deprecated, and served
	case "namespaces":
		return of(func(o *corev1.Namespace, r row) []any {
			return []any{r.name, string(o.Status.Phase), r.age}
		}, name(), str("Status", "The status of the namespace"), age()), true
	case "configmaps":
		return ofParts(jsontree.Parts("data.*", "binaryData.*"), configMapCells, name(), str("Data", doc(corev1.ConfigMap{}, "data")), age()), true
	case "secrets":
		return ofParts(jsontree.Parts("type", "data.*"), secretCells, name(), str("Type", doc(corev1.Secret{}, "type")), str("Data", doc(corev1.Secret{}, "data")), age()), true
	case "serviceaccounts":
		return of(func(_ *metav1.PartialObjectMetadata, r row) []any { return []any{r.name, r.age} }, name(), age()), true
	case "events":
		return events(), true
	case "limitranges":
		return of(createdCells, createdAt()...), true
	case "resourcequotas":
		return of(quotaCells, name(),
			str("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
			str("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
			age()), true
	}
	return Printer{}, false
}

func configMapCells(o *corev1.ConfigMap, r row) []any {
	return []any{r.name, int64(len(o.Data) + len(o.BinaryData)), r.age}
}

func secretCells(o *corev1.Secret, r row) []any {
	return []any{r.name, string(o.Type), int64(len(o.Data)), r.age}
}

// createdCells are the cells of createdAt.
func createdCells(_ *metav1.PartialObjectMetadata, r row) []any {
	return []any{r.name, stamp(r.created)}
}

func events() Printer {
	return of(eventCells,
		str("Last Seen", doc(corev1.Event{}, "lastTimestamp")),
		str("Type", doc(corev1.Event{}, "type")),
		str("Reason", doc(corev1.Event{}, "reason")),
		str("Object", doc(corev1.Event{}, "involvedObject")),
		wide(str("Subobject", doc(corev1.ObjectReference{}, "fieldPath")))[0],
		wide(str("Source", doc(corev1.Event{}, "source")))[0],
		str("Message", doc(corev1.Event{}, "message")),
		wide(str("First Seen", doc(corev1.Event{}, "firstTimestamp")))[0],
		wide(str("Count", doc(corev1.Event{}, "count")))[0],
		wide(name())[0],
	)
}

func eventCells(o *corev1.Event, r row) []any {
	last, first := o.LastTimestamp.Time, o.FirstTimestamp.Time
	if first.IsZero() {
		first = o.EventTime.Time
	}
	if last.IsZero() {
		last = first
	}
	count := o.Count
	switch {
	case o.Series != nil:
		last, count = o.Series.LastObservedTime.Time, o.Series.Count
	case count == 0: // events.k8s.io does not count a single event
		count = 1
	}
	target := strings.ToLower(o.InvolvedObject.Kind)
	if o.InvolvedObject.Name != "" {
		target += "/" + o.InvolvedObject.Name
	}
	source := or(o.Source.Component, o.ReportingController)
	if host := or(o.Source.Host, o.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		resources.Age(last), o.Type, o.Reason, target, o.InvolvedObject.FieldPath,
		source, strings.TrimSpace(o.Message), resources.Age(first), int64(count), r.name,
	}
}

// quotaCells show what the quota controller has observed, not what was asked for.
func quotaCells(o *corev1.ResourceQuota, r row) []any {
	var requests, limits []string
	for _, name := range slices.Sorted(maps.Keys(o.Status.Hard)) {
		hard, used := o.Status.Hard[name], o.Status.Used[name]
		line := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits.") {
			limits = append(limits, line)
		} else {
			requests = append(requests, line)
		}
	}
	return []any{r.name, strings.Join(requests, ", "), strings.Join(limits, ", "), r.age}
}
