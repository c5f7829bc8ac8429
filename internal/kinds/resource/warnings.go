package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnResourceSlice warns about a ResourceSlice.
func warnResourceSlice(o, _ *resourcev1.ResourceSlice) []string {
	var l warn.List
	if driver := o.Spec.Driver; driver != strings.ToLower(driver) {
		l.Say("spec.driver: driver names should be lowercase; %q contains uppercase characters", driver)
	}
	return l.Texts()
}
