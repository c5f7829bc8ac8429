package autoscaling_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/autoscaling"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestAutoscalerRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(autoscaling.Kinds(), "horizontalpodautoscalers.autoscaling"),
		"Name | Reference | Targets | MinPods | MaxPods | Replicas | Age",
		[]tabletest.Case{
			{
				"two metrics", `
spec:
  scaleTargetRef: {kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 5
  metrics:
  - {type: Resource, resource: {name: cpu, target: {averageUtilization: 80}}}
  - {type: Resource, resource: {name: memory, target: {averageValue: 1Gi}}}
status:
  currentReplicas: 4
  currentMetrics:
  - {type: Resource, resource: {name: cpu, current: {averageUtilization: 50, averageValue: 10m}}}
  - {type: Resource, resource: {name: memory, current: {averageValue: 512Mi}}}`,
				"x | Deployment/web | cpu: 50%/80%, memory: 512Mi/1Gi | 2 | 5 | 4 | 90m",
			},
			{
				"no metric",
				`spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 3}`,
				"x | Deployment/web | <none> | <unset> | 3 | 0 | 90m",
			},
			{
				"four metrics",
				`spec: {scaleTargetRef: {kind: Deployment, name: web}, metrics: [{type: A}, {type: B}, {type: C}, {type: D}]}`,
				"x | Deployment/web | <unknown type>, <unknown type> + 2 more... | <unset> | 0 | 0 | 90m",
			},
		},
	)
}

func TestAutoscalerTargets(t *testing.T) {
	for _, c := range []struct{ name, metric, current, want string }{
		{
			"resource, no status", `{type: Resource, resource: {name: cpu, target: {averageUtilization: 80}}}`, ``,
			"cpu: <unknown>/80%",
		},
		{
			"resource, no target", `{type: Resource, resource: {name: cpu, target: {}}}`,
			`{resource: {current: {averageUtilization: 5}}}`, "cpu: 5%/<auto>",
		},
		{
			"resource, status of a quantity only", `{type: Resource, resource: {name: cpu, target: {averageUtilization: 80}}}`,
			`{resource: {current: {averageValue: 10m}}}`, "cpu: <unknown>/80%",
		},
		{
			"quantity of a resource, no status", `{type: Resource, resource: {name: cpu, target: {averageValue: 100m}}}`, ``,
			"cpu: <unknown>/100m",
		},
		{
			"container",
			`{type: ContainerResource, containerResource: {container: a, name: cpu, target: {averageUtilization: 80}}}`,
			`{containerResource: {current: {averageUtilization: 5}}}`, "cpu: 5%/80%",
		},
		{
			"container, no status",
			`{type: ContainerResource, containerResource: {container: a, name: cpu, target: {averageValue: 100m}}}`, ``,
			"cpu: <unknown>/100m",
		},
		{
			"pods", `{type: Pods, pods: {target: {averageValue: "100"}}}`, `{pods: {current: {averageValue: 50500m}}}`,
			"50500m/100",
		},
		{"pods, no status", `{type: Pods, pods: {target: {averageValue: 10k}}}`, ``, "<unknown>/10k"},
		{"object", `{type: Object, object: {target: {value: "100"}}}`, `{object: {current: {value: "50"}}}`, "50/100"},
		{"object, no status", `{type: Object, object: {target: {value: "100"}}}`, ``, "<unknown>/100"},
		{
			"object, average", `{type: Object, object: {target: {averageValue: "10"}}}`,
			`{object: {current: {value: "50", averageValue: "5"}}}`, "5/10 (avg)",
		},
		{
			"object, no average", `{type: Object, object: {target: {averageValue: "10"}}}`, `{object: {current: {value: "50"}}}`,
			"<unknown>/10 (avg)",
		},
		{"external", `{type: External, external: {target: {value: "100"}}}`, `{external: {current: {value: "50"}}}`, "50/100"},
		{"external, average, no status", `{type: External, external: {target: {averageValue: "10"}}}`, ``, "<unknown>/10 (avg)"},
		{
			"status of another type", `{type: Pods, pods: {target: {averageValue: "100"}}}`,
			`{external: {current: {value: "50"}}}`, "<unknown>/100",
		},
		{"type without its member", `{type: Pods}`, ``, "<unknown type>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := tabletest.Parse(t, "spec: {metrics: ["+c.metric+"]}\nstatus: {currentMetrics: ["+c.current+"]}")
			if got := tabletest.Cells(tabletest.Of(autoscaling.Kinds(), "horizontalpodautoscalers.autoscaling"),
				o)[2]; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
