package apps

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// Defaults as of pkg/apis/apps/v1/defaults.go of Kubernetes 1.37.

// defaultDeployment fills in the defaults of a deployment.
func defaultDeployment(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "replicas", int64(1))
	tree.Set(spec, "revisionHistoryLimit", int64(10))
	tree.Set(spec, "progressDeadlineSeconds", int64(600))
	strategy := tree.Made(spec, "strategy")
	tree.Set(strategy, "type", "RollingUpdate")
	if strategy["type"] == "RollingUpdate" {
		rolling := tree.Made(strategy, "rollingUpdate")
		tree.SetPointer(rolling, "maxUnavailable", "25%")
		tree.SetPointer(rolling, "maxSurge", "25%")
	}
	podspec.DefaultTemplate(tree.Child(spec, "template"))
}

// defaultReplicaSet fills in the defaults of a replica set.
func defaultReplicaSet(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "replicas", int64(1))
	podspec.DefaultTemplate(tree.Child(spec, "template"))
}

// defaultStatefulSet fills in the defaults of a stateful set.
func defaultStatefulSet(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "replicas", int64(1))
	tree.Set(spec, "revisionHistoryLimit", int64(10))
	tree.Set(spec, "podManagementPolicy", "OrderedReady")
	rollout(tree.Made(spec, "updateStrategy"))
	retention := tree.Made(spec, "persistentVolumeClaimRetentionPolicy")
	tree.Set(retention, "whenDeleted", "Retain")
	tree.Set(retention, "whenScaled", "Retain")
	for claim := range tree.Items(spec, "volumeClaimTemplates") {
		claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
		podspec.DefaultClaim(claim)
	}
	podspec.DefaultTemplate(tree.Child(spec, "template"))
}

// rollout fills in how a stateful set replaces its pods. Only a strategy of no type at all
// gets the numbers of a rolling update.
func rollout(strategy tree.Object) {
	if tree.Text(strategy, "type") == "" {
		strategy["type"] = "RollingUpdate"
		tree.Made(strategy, "rollingUpdate")
	}
	if strategy["type"] == "RollingUpdate" {
		rolling := tree.Child(strategy, "rollingUpdate")
		tree.SetPointer(rolling, "partition", int64(0))
		tree.SetPointer(rolling, "maxUnavailable", int64(1))
	}
}

// defaultDaemonSet fills in the defaults of a daemon set.
func defaultDaemonSet(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "revisionHistoryLimit", int64(10))
	strategy := tree.Made(spec, "updateStrategy")
	tree.Set(strategy, "type", "RollingUpdate")
	if strategy["type"] == "RollingUpdate" {
		rolling := tree.Made(strategy, "rollingUpdate")
		tree.SetPointer(rolling, "maxUnavailable", int64(1))
		tree.SetPointer(rolling, "maxSurge", int64(0))
	}
	podspec.DefaultTemplate(tree.Child(spec, "template"))
}

// completeDaemonSet counts the changes of a daemon set's template in an annotation, the
// only trace of the field that the beta versions had for it.
func completeDaemonSet(u, old tree.Object) error {
	const name = "deprecated.daemonset.template.generation"
	if err := podspec.CompleteTemplate(u, old); err != nil {
		return err
	}
	given := int64(0)
	metadata := tree.Made(u, "metadata")
	if value, has := tree.Child(metadata, "annotations")[name].(string); has {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("read the annotation %s: %w", name, err)
		}
		given = n
	}
	if old != nil {
		was := tree.Text(tree.Child(old, "metadata", "annotations"), name)
		given, _ = strconv.ParseInt(was, 10, 64) // none in objects from before 1.0: 0
		if !reflect.DeepEqual(tree.Child(u, "spec", "template"), tree.Child(old, "spec", "template")) {
			given++
		}
	}
	tree.Made(metadata, "annotations")[name] = strconv.FormatInt(max(given, 1), 10)
	return nil
}
