package registry_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gapless-io/gapless/kube"
)

// TestResourceVersionsAreComparedAsUpstreamDoes compares with apimachinery, newer than the
// oldest one that kube itself is tested with.
func TestResourceVersionsAreComparedAsUpstreamDoes(t *testing.T) {
	versions := []string{
		"", "0", "1", "9", "10", "11", "99", "100", "007", "-1", "1a", "a", "18446744073709551615", "18446744073709551616", "١",
	}
	for _, a := range versions {
		for _, b := range versions {
			want, wantErr := resourceversion.CompareResourceVersion(a, b)
			got, err := kube.CompareResourceVersion(a, b)
			if got != want || (err == nil) != (wantErr == nil) {
				t.Errorf("%q and %q compare as %d, %v; upstream: %d, %v", a, b, got, err, want, wantErr)
			}
			if older := kube.OlderRV(a, b); older != (wantErr == nil && want < 0) {
				t.Errorf("%q is older than %q: %t", a, b, older)
			}
		}
	}
}
