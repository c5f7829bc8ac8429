package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// checkJobStatus does not check how the numbers and conditions of a job fit together.
func checkJobStatus(s *batchv1.JobStatus) field.ErrorList {
	at := field.NewPath("status")
	errs := check.Counts([]check.Count{
		{Name: "active", N: int64(s.Active)}, {Name: "succeeded", N: int64(s.Succeeded)}, {Name: "failed", N: int64(s.Failed)},
	}, nil)
	errs = append(errs, check.NotNegative(at, "ready", s.Ready)...)
	errs = append(errs, check.NotNegative(at, "terminating", s.Terminating)...)
	if s.UncountedTerminatedPods == nil {
		return errs
	}
	seen := map[types.UID]bool{}
	for _, list := range []struct {
		name string
		pods []types.UID
	}{{"succeeded", s.UncountedTerminatedPods.Succeeded}, {"failed", s.UncountedTerminatedPods.Failed}} {
		for i, uid := range list.pods {
			p := at.Child("uncountedTerminatedPods", list.name).Index(i)
			if uid == "" {
				errs = append(errs, field.Invalid(p, uid, "must not be empty"))
			} else if seen[uid] {
				errs = append(errs, field.Duplicate(p, uid))
			}
			seen[uid] = true
		}
	}
	return errs
}
