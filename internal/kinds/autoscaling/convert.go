package autoscaling

import (
	"encoding/json"
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// Where autoscaling/v1 has what its fields cannot say (kubernetes
// pkg/apis/autoscaling/annotations.go).
const (
	metricsNote    = "autoscaling.alpha.kubernetes.io/metrics"
	behaviorNote   = "autoscaling.alpha.kubernetes.io/behavior"
	currentNote    = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsNote = "autoscaling.alpha.kubernetes.io/conditions"
)

// specNotes are the annotations that are parts of the spec.
func specNotes() []string { return []string{metricsNote, behaviorNote} }

// statusNotes are the annotations that are parts of the status.
func statusNotes() []string { return []string{currentNote, conditionsNote} }

// usualUtilization is the target of an autoscaler without metrics, in percent of the
// requested CPU (pkg/apis/autoscaling DefaultCPUUtilization).
const usualUtilization = 80

// show makes an autoscaler of autoscaling/v1 of one of autoscaling/v2.
func show(content map[string]any) map[string]any {
	shown := maps.Clone(content)
	notes := notes{}
	if spec, is := content["spec"].(tree.Object); is {
		v1 := pick(spec, "scaleTargetRef", "minReplicas", "maxReplicas")
		var others []any
		for m := range each(spec["metrics"]) {
			if use := cpuUse(m, "target"); use != nil {
				// The first one; others of this form have no place, also upstream.
				if v1["targetCPUUtilizationPercentage"] == nil {
					v1["targetCPUUtilizationPercentage"] = use
				}
				continue
			}
			others = append(others, flat(m, "target"))
		}
		put[[]autoscalingv1.MetricSpec](notes, metricsNote, others, len(others))
		put[behavior](notes, behaviorNote, spec["behavior"], size(spec["behavior"]))
		shown["spec"] = v1
	}
	if status, is := content["status"].(tree.Object); is {
		v1 := pick(status, "observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
		var current []any
		for m := range each(status["currentMetrics"]) {
			if use := cpuUse(m, "current"); use != nil {
				v1["currentCPUUtilizationPercentage"] = use
			}
			current = append(current, flat(m, "current"))
		}
		// With the CPU, whose raw value has no field of its own.
		put[[]autoscalingv1.MetricStatus](notes, currentNote, current, len(current))
		put[[]autoscalingv1.HorizontalPodAutoscalerCondition](
			notes,
			conditionsNote,
			status["conditions"],
			size(status["conditions"]),
		)
		shown["status"] = v1
	}
	return notes.onto(shown)
}

// store makes an autoscaler of autoscaling/v2 of one of autoscaling/v1.
// An annotation that is not JSON is ignored; its content is not checked.
func store(content map[string]any) map[string]any {
	stored := maps.Clone(content)
	said := read(content)
	if spec, is := content["spec"].(tree.Object); is {
		v2 := pick(spec, "scaleTargetRef", "minReplicas", "maxReplicas")
		var metrics []any
		for m := range each(said[metricsNote]) {
			metrics = append(metrics, deep(m, "target"))
		}
		if use := spec["targetCPUUtilizationPercentage"]; use != nil {
			metrics = append(metrics, cpu(use))
		}
		if len(metrics) == 0 {
			metrics = []any{cpu(int64(usualUtilization))}
		}
		v2["metrics"] = metrics
		if behavior, is := said[behaviorNote].(tree.Object); is && len(behavior) > 0 {
			v2["behavior"] = behavior
		}
		stored["spec"] = v2
	}
	if status, is := content["status"].(tree.Object); is {
		v2 := pick(status, "observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
		var current []any
		for m := range each(said[currentNote]) {
			current = append(current, deep(m, "current"))
		}
		if use := status["currentCPUUtilizationPercentage"]; use != nil && current == nil {
			current = []any{
				tree.Object{
					"type":     "Resource",
					"resource": tree.Object{"name": "cpu", "current": tree.Object{"averageUtilization": use}},
				},
			}
		}
		v2["currentMetrics"] = current
		if conditions, is := said[conditionsNote].([]any); is {
			v2["conditions"] = conditions
		}
		stored["status"] = v2
	}
	return unnoted(stored)
}

func cpu(use any) tree.Object {
	return tree.Object{
		"type":     "Resource",
		"resource": tree.Object{"name": "cpu", "target": tree.Object{"type": "Utilization", "averageUtilization": use}},
	}
}

// cpuUse is the CPU utilization that a metric is about; nil when it is about another
// thing. goal is "target" or "current".
func cpuUse(metric tree.Object, goal string) any {
	resource, _ := metric["resource"].(tree.Object)
	if metric["type"] != "Resource" || resource["name"] != "cpu" {
		return nil
	}
	value, _ := resource[goal].(tree.Object)
	return value["averageUtilization"]
}

// place is where one value of a metric stands: in autoscaling/v2 below two names
// (or one), in autoscaling/v1 below one.
type place struct {
	outer, inner string
	flat         string
}

// places are those of the metrics of a type ("Resource", "Pods", …).
func places(kind, goal string) (member string, all []place) {
	capital := map[string]string{"target": "Target", "current": "Current"}[goal]
	utilization := place{goal, "averageUtilization", goal + "AverageUtilization"}
	average := place{goal, "averageValue", goal + "AverageValue"}
	value := place{goal, "value", goal + "Value"}
	named := place{"metric", "name", "metricName"}
	if capital == "" {
		return "", nil
	}
	switch kind {
	case "Resource":
		return "resource", []place{{"name", "", "name"}, utilization, average}
	case "ContainerResource":
		return "containerResource", []place{{"name", "", "name"}, {"container", "", "container"}, utilization, average}
	case "Pods":
		return "pods", []place{named, {"metric", "selector", "selector"}, average}
	case "Object":
		return "object", []place{
			{
				"describedObject",
				"",
				"target",
			}, named, {"metric", "selector", "selector"}, value, {goal, "averageValue", "averageValue"},
		}
	case "External":
		return "external", []place{named, {"metric", "selector", "metricSelector"}, value, average}
	}
	return "", nil
}

// flat is a metric of autoscaling/v2 as autoscaling/v1 writes it.
func flat(metric tree.Object, goal string) tree.Object {
	kind, _ := metric["type"].(string)
	member, all := places(kind, goal)
	source, is := metric[member].(tree.Object)
	if !is {
		return metric
	}
	out := tree.Object{}
	for _, p := range all {
		value := source[p.outer]
		if p.inner != "" {
			outer, _ := value.(tree.Object)
			value = outer[p.inner]
		}
		if value != nil {
			out[p.flat] = value
		}
	}
	return tree.Object{"type": kind, member: out}
}

// deep is flat the other way round.
func deep(metric tree.Object, goal string) tree.Object {
	kind, _ := metric["type"].(string)
	member, all := places(kind, goal)
	source, is := metric[member].(tree.Object)
	if !is {
		return metric
	}
	out := tree.Object{}
	for _, p := range all {
		value := source[p.flat]
		switch {
		case value == nil:
		case p.inner == "":
			out[p.outer] = value
		default:
			outer, is := out[p.outer].(tree.Object)
			if !is {
				outer = tree.Object{}
				out[p.outer] = outer
			}
			outer[p.inner] = value
		}
	}
	if target, is := out["target"].(tree.Object); is && goal == "target" {
		switch {
		case target["averageUtilization"] != nil:
			target["type"] = "Utilization"
		case target["value"] != nil:
			target["type"] = "Value"
		default:
			target["type"] = "AverageValue"
		}
	}
	return tree.Object{"type": kind, member: out}
}

// notes are annotations with JSON in them.
type notes map[string]string

// put adds one, unless it is empty. T has its members in the order in which upstream writes them.
func put[T any](n notes, name string, value any, size int) {
	if size == 0 {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		return // it comes from JSON
	}
	var typed T
	if err := json.Unmarshal(text, &typed); err != nil {
		return // validation has refused what does not fit
	}
	if text, err = json.Marshal(typed); err == nil {
		n[name] = string(text)
	}
}

// behavior is how upstream writes the behavior of an autoscaler: as the struct inside of
// kube-apiserver, whose members have no names for JSON. It is read by any case of the names.
type behavior struct{ ScaleUp, ScaleDown *scalingRules }

type scalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *string
	Policies                   []struct {
		Type                 string
		Value, PeriodSeconds int32
	}
	Tolerance *resource.Quantity
}

// onto adds the annotations to an object.
func (n notes) onto(object tree.Object) tree.Object {
	if len(n) == 0 {
		return object
	}
	metadata, _ := object["metadata"].(tree.Object)
	annotations, _ := metadata["annotations"].(tree.Object)
	metadata, annotations = maps.Clone(metadata), maps.Clone(annotations)
	if metadata == nil {
		metadata = tree.Object{}
	}
	if annotations == nil {
		annotations = tree.Object{}
	}
	for name, text := range n {
		annotations[name] = text
	}
	metadata["annotations"], object["metadata"] = annotations, metadata
	return object
}

// read decodes the annotations of an object. One that does not fit says nothing.
func read(object tree.Object) tree.Object {
	metadata, _ := object["metadata"].(tree.Object)
	annotations, _ := metadata["annotations"].(tree.Object)
	said := tree.Object{}
	take[[]autoscalingv1.MetricSpec](said, annotations, metricsNote)
	take[autoscalingv2.HorizontalPodAutoscalerBehavior](said, annotations, behaviorNote)
	take[[]autoscalingv1.MetricStatus](said, annotations, currentNote)
	take[[]autoscalingv1.HorizontalPodAutoscalerCondition](said, annotations, conditionsNote)
	return said
}

// take decodes one annotation as T: without what T does not know, and by any case of the names, as
// encoding/json reads it.
func take[T any](said, annotations tree.Object, name string) {
	text, _ := annotations[name].(string)
	var typed T
	if json.Unmarshal([]byte(text), &typed) != nil {
		return
	}
	normal, err := json.Marshal(typed)
	if err != nil {
		return // it comes from JSON
	}
	var value any
	if kjson.UnmarshalCaseSensitivePreserveInts(normal, &value) == nil {
		said[name] = value
	}
}

// unnoted returns an object without the annotations.
func unnoted(object tree.Object) tree.Object {
	metadata, _ := object["metadata"].(tree.Object)
	annotations, _ := metadata["annotations"].(tree.Object)
	if len(annotations) == 0 {
		return object
	}
	left := maps.Clone(annotations)
	for _, name := range slices.Concat(specNotes(), statusNotes()) {
		delete(left, name)
	}
	metadata = maps.Clone(metadata)
	if metadata["annotations"] = left; len(left) == 0 {
		delete(metadata, "annotations")
	}
	object["metadata"] = metadata
	return object
}

// each yields the objects of a list.
func each(list any) func(yield func(tree.Object) bool) {
	items, _ := list.([]any)
	return func(yield func(tree.Object) bool) {
		for _, item := range items {
			if t, is := item.(tree.Object); is && !yield(t) {
				return
			}
		}
	}
}

func size(value any) int {
	switch v := value.(type) {
	case tree.Object:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// pick returns the named members that an object has.
func pick(object tree.Object, names ...string) tree.Object {
	picked := maps.Clone(object)
	maps.DeleteFunc(picked, func(name string, _ any) bool { return !slices.Contains(names, name) })
	return picked
}
