package autoscaling

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

// shownMetrics is how many metrics the TARGETS column lists.
const shownMetrics = 2

func autoscalerTable() kinds.Table {
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{}
	return table.Of(
		autoscalerCells,
		table.Name(),
		table.Str("Reference", table.Doc(spec, "scaleTargetRef")),
		table.Str("Targets", table.Doc(spec, "metrics")),
		table.Str("MinPods", table.Doc(spec, "minReplicas")),
		table.Str("MaxPods", table.Doc(spec, "maxReplicas")),
		table.Str("Replicas", table.Doc(autoscalingv2.HorizontalPodAutoscalerStatus{}, "currentReplicas")),
		table.Age(),
	)
}

func autoscalerCells(o *autoscalingv2.HorizontalPodAutoscaler, r table.Meta) []any {
	targets := make([]string, len(o.Spec.Metrics))
	for i, m := range o.Spec.Metrics {
		var now autoscalingv2.MetricStatus
		if i < len(o.Status.CurrentMetrics) {
			now = o.Status.CurrentMetrics[i]
		}
		targets[i] = metricTarget(m, now)
	}
	return []any{
		r.Name, o.Spec.ScaleTargetRef.Kind + "/" + o.Spec.ScaleTargetRef.Name,
		table.OrNone(table.JoinFirst(targets, shownMetrics, ", ")),
		table.Text(o.Spec.MinReplicas, "<unset>"), int64(o.Spec.MaxReplicas), int64(o.Status.CurrentReplicas), r.Age,
	}
}

// metricTarget shows one metric as "current/target". Only the status of the same type
// says what the current value is.
func metricTarget(m autoscalingv2.MetricSpec, now autoscalingv2.MetricStatus) string {
	var current *autoscalingv2.MetricValueStatus
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		if now.Resource != nil {
			current = &now.Resource.Current
		}
		return fmt.Sprintf("%s: %s", m.Resource.Name, utilization(m.Resource.Target, current))
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		if now.ContainerResource != nil {
			current = &now.ContainerResource.Current
		}
		return fmt.Sprintf("%s: %s", m.ContainerResource.Name, utilization(m.ContainerResource.Target, current))
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		if now.Pods != nil {
			current = &now.Pods.Current
		}
		return average(m.Pods.Target, current)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		if now.Object != nil {
			current = &now.Object.Current
		}
		return quantity(m.Object.Target, current)
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		if now.External != nil {
			current = &now.External.Current
		}
		return quantity(m.External.Target, current)
	}
	return "<unknown type>"
}

// utilization shows a share of what the containers request, unless the target is a
// quantity.
func utilization(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return average(target, current)
	}
	share, goal := "<unknown>", "<auto>"
	if current != nil && current.AverageUtilization != nil {
		share = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	if target.AverageUtilization != nil {
		goal = fmt.Sprintf("%d%%", *target.AverageUtilization)
	}
	return share + "/" + goal
}

// average shows a quantity per pod.
func average(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if current == nil {
		return "<unknown>/" + target.AverageValue.String()
	}
	return current.AverageValue.String() + "/" + target.AverageValue.String()
}

// quantity shows a quantity per pod, and says so, or one of all pods.
func quantity(target autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		if current != nil && current.AverageValue == nil {
			current = nil
		}
		return average(target, current) + " (avg)"
	}
	if current == nil {
		return "<unknown>/" + target.Value.String()
	}
	return current.Value.String() + "/" + target.Value.String()
}
