package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

// Containers returns the names and the images of a pod's containers.
func Containers(spec corev1.PodSpec) (names, images string) {
	var n, i []string
	for _, c := range spec.Containers {
		n = append(n, c.Name)
		i = append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

// ReplicaColumns are the columns of replica sets and of what was there before them.
func ReplicaColumns(desired, current, ready, selector table.Column) []table.Column {
	return append(
		[]table.Column{table.Name(), desired, current, ready, table.Age()},
		table.Wide(append(ContainerColumns(), selector)...)...)
}

// ContainerColumns are the names and images of the containers in a pod template.
func ContainerColumns() []table.Column {
	return []table.Column{
		table.Str("Containers", "Names of each container in the template."),
		table.Str("Images", "Images referenced by each container in the template."),
	}
}

// Scale is the scale subresource of the kinds of the group apps, and of replication
// controllers, whose selector is labels.
func Scale() *kinds.ScalePaths {
	return &kinds.ScalePaths{
		SpecReplicas: []string{"spec", "replicas"}, StatusReplicas: []string{"status", "replicas"},
		Selector: []string{"spec", "selector"},
	}
}
