// Package apps has the kinds of the group apps: the workloads that keep pods running.
package apps

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/kinds/podspec"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "apps", Version: "v1", Kind: "ControllerRevision",
			Table: revisionTable(),
		}, gokind.Rules[*appsv1.ControllerRevision]{
			Object: validateControllerRevision, Update: validateControllerRevisionUpdate,
		}),
		gokind.Of(gokind.Row{
			Group: "apps", Version: "v1", Kind: "DaemonSet", Short: []string{"ds"}, Categories: []string{gokind.All},
			Status: true, Defaults: defaultDaemonSet,
			Complete: completeDaemonSet, Generation: kinds.GenerationOfSpec, Table: daemonSetTable(),
		}, gokind.Rules[*appsv1.DaemonSet]{
			Object: validateDaemonSet, Update: validateDaemonSetUpdate, Warn: warnDaemonSet,
		}),
		gokind.Of(gokind.Row{
			Group: "apps", Version: "v1", Kind: "Deployment", Short: []string{"deploy"}, Categories: []string{gokind.All},
			Status: true, Scale: podspec.Scale(), Defaults: defaultDeployment,
			Complete: podspec.CompleteTemplate,
			// Its annotations are copied to its replica sets.
			Generation: kinds.GenerationOfSpecAndAnnotations, StatusKeeps: []string{"labels"},
			Table: deploymentTable(),
		}, gokind.Rules[*appsv1.Deployment]{
			Object: validateDeployment, Update: validateDeploymentUpdate, Warn: warnDeployment,
		}),
		gokind.Of(gokind.Row{
			Group: "apps", Version: "v1", Kind: "ReplicaSet", Short: []string{"rs"}, Categories: []string{gokind.All},
			Status: true, Scale: podspec.Scale(), Defaults: defaultReplicaSet,
			Complete: podspec.CompleteTemplate, Generation: kinds.GenerationOfSpec, Table: replicaSetTable(),
		}, gokind.Rules[*appsv1.ReplicaSet]{
			Object: validateReplicaSet, Update: validateReplicaSetUpdate, Warn: warnReplicaSet,
		}),
		gokind.Of(gokind.Row{
			Group: "apps", Version: "v1", Kind: "StatefulSet", Short: []string{"sts"}, Categories: []string{gokind.All},
			Status: true, Scale: podspec.Scale(), Defaults: defaultStatefulSet,
			Complete: podspec.CompleteTemplate, Generation: kinds.GenerationOfSpec, Table: statefulSetTable(),
		}, gokind.Rules[*appsv1.StatefulSet]{
			Object: validateStatefulSet, Create: validateNewStatefulSet, Update: validateStatefulSetUpdate,
			Warn: warnStatefulSet,
		}),
	}
}
