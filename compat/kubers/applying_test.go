package kubers

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

func TestKubeRSAppliesAndOperates(t *testing.T) {
	build(t, "v5", "") // all programs
	s := harness.Start(t)
	proxy := harness.NewProxy(t, s)
	kubeconfig := harness.Administrator(t, s).WriteKubeconfig(t, proxy.URL())
	program := filepath.Join(harness.CacheDir(t, "kubers"), "v5", "debug", "applying")
	p := harness.StartForeign(t, exec.CommandContext(t.Context(), program, kubeconfig), nil)
	defer p.Stop() // before its context ends
	harness.Eventually(t, "apply is checked", func() bool {
		if len(p.Output("panicked")) > 0 {
			t.Fatal("it fails")
		}
		return len(p.Output("CHECKED")) > 0
	})
	(&harness.Operator{
		Owners: "/api/v1/namespaces/default/configmaps", Children: "/api/v1/namespaces/default/secrets",
		Notes: "/api/v1/namespaces/default/configmaps",
		Owner: func(name, value string) string {
			return fmt.Sprintf(
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"operated":"yes"}},"data":{"of":%q}}`,
				name, value)
		},
		Shows: func(value string) string {
			return fmt.Sprintf(`"data":{"of":%q}`, base64.StdEncoding.EncodeToString([]byte(value)))
		},
	}).Play(t, s, proxy)
}
