package check

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// IsExtendedResource reports whether a name is that of a resource outside of kubernetes.io, and can
// have a quota (pkg/apis/core/v1/helper IsExtendedResourceName).
func IsExtendedResource(name string) bool {
	const quota = "requests."
	if !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/") || strings.HasPrefix(name, quota) {
		return false
	}
	return len(validation.IsQualifiedName(quota+name)) == 0
}
