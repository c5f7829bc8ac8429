package limits

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// usage is what a container, a pod or a claim requests and is limited to.
type usage struct{ requests, limits quantities }

// quantities are by the names of resources.
type quantities map[string]resource.Quantity

// measure returns the quantity of a resource as a whole number; nil if there is none.
func (q quantities) measure(name string) *measured {
	quantity, has := q[name]
	if !has {
		return nil
	}
	return &measured{quantity, quantity.Value()}
}

// usageOf reads the resources of an object. Errors: a quantity that is none, which the rules of the kind have refused.
func usageOf(o map[string]any) (usage, error) {
	requests, err := quantitiesOf(o, "requests")
	if err != nil {
		return usage{}, err
	}
	limits, err := quantitiesOf(o, "limits")
	return usage{requests, limits}, err
}

func quantitiesOf(o map[string]any, in string) (quantities, error) {
	list := tree.Child(o, "resources", in)
	all := make(quantities, len(list))
	for name, value := range list {
		quantity, err := resource.ParseQuantity(fmt.Sprint(value)) // a number is one, too
		if err != nil {
			return nil, fmt.Errorf("read %s of %s: %w", in, name, err)
		}
		all[name] = quantity
	}
	return all, nil
}

// containersOf reads the resources of the containers of a pod, the init containers after the others.
func containersOf(spec map[string]any) ([]usage, error) {
	all := []usage{}
	for _, list := range []string{"containers", "initContainers"} {
		for c := range tree.Items(spec, list) {
			used, err := usageOf(c)
			if err != nil {
				return nil, err
			}
			all = append(all, used)
		}
	}
	return all, nil
}

// podOf returns what a whole pod requests and is limited to: the sum of its containers, or what its init containers need
// before if that is more; of cpu and memory what it says itself, if it does. Overhead does not count.
func podOf(spec map[string]any) (*usage, error) {
	requests, err := total(spec, "requests")
	if err != nil {
		return nil, err
	}
	limits, err := total(spec, "limits")
	return &usage{requests, limits}, err
}

// total is one half of podOf. A sidecar is an init container that stays: those after it, and all containers, run beside
// it.
func total(spec map[string]any, in string) (quantities, error) {
	sum, sidecars, before := quantities{}, quantities{}, quantities{}
	for c := range tree.Items(spec, "containers") {
		used, err := quantitiesOf(c, in)
		if err != nil {
			return nil, err
		}
		sum.add(used)
	}
	for c := range tree.Items(spec, "initContainers") {
		used, err := quantitiesOf(c, in)
		if err != nil {
			return nil, err
		}
		if c["restartPolicy"] == string(corev1.ContainerRestartPolicyAlways) {
			sum.add(used)
			sidecars.add(used)
			before.raise(sidecars)
			continue
		}
		used.add(sidecars)
		before.raise(used)
	}
	sum.raise(before)
	whole, err := quantitiesOf(spec, in)
	if err != nil {
		return nil, err
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, says := whole[string(name)]; says {
			sum[string(name)] = quantity
		}
	}
	return sum, nil
}

func (q quantities) add(other quantities) {
	for name, quantity := range other {
		sum, is := q[name]
		if !is {
			q[name] = quantity.DeepCopy()
			continue
		}
		sum.Add(quantity)
		q[name] = sum
	}
}

// raise raises quantities to those of others that are larger.
func (q quantities) raise(other quantities) {
	for name, quantity := range other {
		if has, is := q[name]; !is || quantity.Cmp(has) > 0 {
			q[name] = quantity.DeepCopy()
		}
	}
}
