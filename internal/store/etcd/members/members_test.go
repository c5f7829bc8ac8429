package members_test

import (
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

func TestReplicasAndObjectsHaveDifferentKeys(t *testing.T) {
	for storage, want := range map[string]string{
		"/registry":         "/gapless/registry/",
		"registry/":         "/gapless/registry/",
		"/clusters/one":     "/gapless/clusters%2Fone/",
		"/gaplessness":      "/gapless/gaplessness/",
		"":                  "",
		"/":                 "",
		"/gapless":          "",
		"/gapless/registry": "",
	} {
		got, err := members.Prefix(storage)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("the prefix beside %q is %q, %v, want %q", storage, got, err, want)
		}
		if want == "" && (err == nil || !strings.Contains(err.Error(), "choose another")) {
			t.Errorf("the prefix %q is refused with %v", storage, err)
		}
	}
}
