package node

import (
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnRuntimeClass warns about a RuntimeClass.
func warnRuntimeClass(o, _ *nodev1.RuntimeClass) []string {
	var l warn.List
	if o.Scheduling != nil {
		for _, key := range warn.OldKeys(o.Scheduling.NodeSelector) {
			l.At(field.NewPath("scheduling", "nodeSelector"), "%s", warn.OldLabel(key))
		}
	}
	return l.Texts()
}
