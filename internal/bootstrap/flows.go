package bootstrap

import (
	"strconv"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	flowcontrol "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Flows says what a Controller does with the FlowSchemas and PriorityLevelConfigurations that every cluster has.
type Flows int

// FlowsKept restores them as kube-apiserver does. FlowsShared creates those that are missing and leaves the others as they
// are: kube-apiserver may have the same objects, and its version others. FlowsLeft leaves them to another Controller.
const (
	FlowsKept Flows = iota
	FlowsShared
	FlowsLeft
)

// The managers of what kube-apiserver writes of them (pkg/registry/flowcontrol/ensurer, pkg/controlplane/apiserver).
const (
	flowProducer = "api-priority-and-fairness-config-producer-v1"
	flowConsumer = "api-priority-and-fairness-config-consumer-v1"
)

func flowSchemas() kinds.GroupResource { return flowcontrolv1.Resource("flowschemas") }

func priorityLevels() kinds.GroupResource {
	return flowcontrolv1.Resource("prioritylevelconfigurations")
}

// flowName is the name of a task about an object.
func flowName(resource kinds.GroupResource, name string) string {
	return resource.Resource + "/" + name
}

// firstFlows are the objects of flow control, by flowName.
func firstFlows(mode Flows) map[string]object {
	all := map[string]object{}
	if mode == FlowsLeft {
		return all
	}
	schema := func(mandatory bool, schemas ...*flowcontrolv1.FlowSchema) {
		for _, wanted := range schemas {
			all[flowName(flowSchemas(), wanted.Name)] = object{
				resource: flowSchemas(), name: wanted.Name, wanted: wanted, manager: flowProducer,
				correct: correction(func(there *flowcontrolv1.FlowSchema) (bool, error) {
					return correctFlow(&there.ObjectMeta, mandatory, &there.Spec, wanted.Spec), nil
				}),
			}
		}
	}
	level := func(mandatory bool, levels ...*flowcontrolv1.PriorityLevelConfiguration) {
		for _, wanted := range levels {
			all[flowName(priorityLevels(), wanted.Name)] = object{
				resource: priorityLevels(), name: wanted.Name, wanted: wanted, manager: flowProducer,
				correct: correction(func(there *flowcontrolv1.PriorityLevelConfiguration) (bool, error) {
					spec := wanted.Spec
					if wanted.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt && there.Spec.Exempt != nil {
						spec.Exempt = there.Spec.Exempt // administrators may change it
					}
					return correctFlow(&there.ObjectMeta, mandatory, &there.Spec, spec), nil
				}),
			}
		}
	}
	level(true, flowcontrol.MandatoryPriorityLevelConfigurations...)
	level(false, flowcontrol.SuggestedPriorityLevelConfigurations...)
	schema(true, flowcontrol.MandatoryFlowSchemas...)
	schema(false, flowcontrol.SuggestedFlowSchemas...)
	if mode == FlowsShared {
		for name, o := range all {
			o.correct = func([]byte) (any, error) { return nil, nil }
			all[name] = o
		}
	}
	return all
}

// correctFlow gives an object the spec that it should have, and the annotation that says whether it is updated. The
// mandatory ones always are; of the others, those that say so, and those that say nothing and nobody has changed.
func correctFlow[T any](meta *metav1.ObjectMeta, mandatory bool, spec *T, wanted T) (changed bool) {
	says, err := strconv.ParseBool(meta.Annotations[flowcontrolv1.AutoUpdateAnnotationKey])
	update := mandatory || err == nil && says || err != nil && meta.Generation == 1
	if err != nil || says != update {
		changed = set(&meta.Annotations, flowcontrolv1.AutoUpdateAnnotationKey, strconv.FormatBool(update))
	}
	if update && !equality.Semantic.DeepEqual(*spec, wanted) {
		*spec, changed = wanted, true
	}
	return changed
}
