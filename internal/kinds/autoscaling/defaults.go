package autoscaling

import "github.com/gapless-io/gapless/internal/kinds/tree"

// Defaults as of pkg/apis/autoscaling/{v1,v2}/defaults.go of Kubernetes 1.37.

// defaultAutoscaler fills in the defaults of an autoscaler of autoscaling/v2.
func defaultAutoscaler(o tree.Object) {
	spec := tree.Made(o, "spec")
	if spec == nil {
		return // it is no object: decoding refuses it
	}
	tree.Set(spec, "minReplicas", int64(1))
	if list, _ := spec["metrics"].([]any); len(list) == 0 {
		spec["metrics"] = []any{tree.Object{"type": "Resource", "resource": tree.Object{
			"name": "cpu", "target": tree.Object{"type": "Utilization", "averageUtilization": int64(80)},
		}}}
	}
	behavior := tree.Child(spec, "behavior")
	if behavior == nil {
		return
	}
	whole := tree.Object{"type": "Percent", "value": int64(100), "periodSeconds": int64(15)}
	up := tree.Made(behavior, "scaleUp")
	tree.Set(up, "stabilizationWindowSeconds", int64(0))
	tree.SetPointer(up, "selectPolicy", "Max")
	tree.SetPointer(up, "policies", []any{tree.Object{"type": "Pods", "value": int64(4), "periodSeconds": int64(15)}, whole})
	down := tree.Made(behavior, "scaleDown")
	tree.SetPointer(down, "selectPolicy", "Max")
	tree.SetPointer(down, "policies", []any{tree.Object{"type": "Percent", "value": int64(100), "periodSeconds": int64(15)}})
}

// defaultAutoscalerV1 fills in the defaults of an autoscaler of autoscaling/v1. One without metrics gets a target for
// the CPU, which upstream fills in where it converts it; who writes it manages that too.
func defaultAutoscalerV1(o tree.Object) {
	spec := tree.Made(o, "spec")
	if spec == nil {
		return // it is no object: decoding refuses it
	}
	tree.Set(spec, "minReplicas", int64(1))
	if metrics, _ := read(o)[metricsNote].([]any); len(metrics) == 0 {
		tree.SetPointer(spec, "targetCPUUtilizationPercentage", int64(usualUtilization))
	}
}
