package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func namespaceTable() kinds.Table {
	return table.Of(func(o *corev1.Namespace, r table.Meta) []any {
		return []any{r.Name, string(o.Status.Phase), r.Age}
	}, table.Name(), table.Str("Status", "The status of the namespace"), table.Age())
}

func configMapTable() kinds.Table {
	return table.OfParts(jsontree.Parts("data.*", "binaryData.*"), configMapCells,
		table.Name(), table.Str("Data", table.Doc(corev1.ConfigMap{}, "data")), table.Age())
}

func secretTable() kinds.Table {
	return table.OfParts(jsontree.Parts("type", "data.*"), secretCells, table.Name(),
		table.Str("Type", table.Doc(corev1.Secret{}, "type")), table.Str("Data", table.Doc(corev1.Secret{}, "data")), table.Age())
}

func serviceAccountTable() kinds.Table {
	t := table.Of(
		func(_ *metav1.PartialObjectMetadata, r table.Meta) []any { return []any{r.Name, r.Age} },
		table.Name(),
		table.Age(),
	)
	t.RowsSince = 35
	return t
}

func quotaTable() kinds.Table {
	return table.Of(
		quotaCells,
		table.Name(),
		table.Str("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
		table.Str(
			"Limit",
			"Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
		),
		table.Age(),
	)
}

func configMapCells(o *corev1.ConfigMap, r table.Meta) []any {
	return []any{r.Name, int64(len(o.Data) + len(o.BinaryData)), r.Age}
}

func secretCells(o *corev1.Secret, r table.Meta) []any {
	return []any{r.Name, string(o.Type), int64(len(o.Data)), r.Age}
}

func eventTable() kinds.Table {
	return table.Of(eventCells,
		table.Str("Last Seen", table.Doc(corev1.Event{}, "lastTimestamp")),
		table.Str("Type", table.Doc(corev1.Event{}, "type")),
		table.Str("Reason", table.Doc(corev1.Event{}, "reason")),
		table.Str("Object", table.Doc(corev1.Event{}, "involvedObject")),
		table.Wide(table.Str("Subobject", table.Doc(corev1.ObjectReference{}, "fieldPath")))[0],
		table.Wide(table.Str("Source", table.Doc(corev1.Event{}, "source")))[0],
		table.Str("Message", table.Doc(corev1.Event{}, "message")),
		table.Wide(table.Str("First Seen", table.Doc(corev1.Event{}, "firstTimestamp")))[0],
		table.Wide(table.Str("Count", table.Doc(corev1.Event{}, "count")))[0],
		table.Wide(table.Name())[0],
	)
}

func eventCells(o *corev1.Event, r table.Meta) []any {
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
	source := table.Or(o.Source.Component, o.ReportingController)
	if host := table.Or(o.Source.Host, o.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		kinds.Age(last), o.Type, o.Reason, target, o.InvolvedObject.FieldPath,
		source, strings.TrimSpace(o.Message), kinds.Age(first), int64(count), r.Name,
	}
}

// quotaCells show what the quota controller has observed, not what was asked for.
func quotaCells(o *corev1.ResourceQuota, r table.Meta) []any {
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
	return []any{r.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), r.Age}
}
