// Package batch has the kinds of the group batch: the workloads that end.
package batch

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/wire"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	// 52: a job's name is the cron job's and 11 characters, and a label has 63.
	const maxCronJobName = 52
	// pkg/registry/batch/job/storage/storage.go deleteOptionWarnings
	const orphanWarning = "child pods are preserved by default when jobs are deleted; " +
		"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "batch", Version: "v1", Kind: "CronJob", Short: []string{"cj"}, Categories: []string{gokind.All},
			Status: true, Name: kinds.ControllerName(maxCronJobName), Defaults: defaultCronJob,
			Complete: completeCronJob, Generation: kinds.GenerationOfSpec, Table: cronJobTable(),
		}, gokind.Rules[*batchv1.CronJob]{Object: validateCronJob, Warn: warnCronJob}),
		gokind.Of(gokind.Row{
			Group: "batch", Version: "v1", Kind: "Job", Categories: []string{gokind.All}, Status: true, Defaults: defaultJob,
			Fields:   []wire.FieldPath{{Label: "status.successful", Path: []string{"status", "succeeded"}, Default: "0"}},
			Complete: completeJob, Generation: kinds.GenerationOfSpec, OrphansByDefault: true,
			OrphanWarning: orphanWarning, Table: jobTable(),
		}, gokind.Rules[*batchv1.Job]{
			Object: validateJob, Create: validateNewJob, Update: validateJobUpdate, Warn: warnJob,
		}),
	}
}
