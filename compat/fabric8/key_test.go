package fabric8

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestFabric8Of2019NeedsNoBouncyCastleForAnRSAKey is what --client-key-algorithm is for.
func TestFabric8Of2019NeedsNoBouncyCastleForAnRSAKey(t *testing.T) {
	classPath := build(t, "v4")
	_, libraries, _ := strings.Cut(classPath, ":")
	removed, err := filepath.Glob(filepath.Join(filepath.Dir(libraries), "bc*.jar"))
	if err != nil || len(removed) == 0 {
		t.Fatalf("BouncyCastle is not where it was: %v", err)
	}
	for _, jar := range removed {
		if err := os.Remove(jar); err != nil {
			t.Fatalf("remove a file: %v", err)
		}
	}
	u := serve(t, "--client-key-algorithm", "rsa")
	u.must(http.StatusCreated, configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"before"}}`)
	p := start(t, classPath, "Watching", append(append([]string{u.URL}, u.admin.files...), "RSA"),
		harness.Watches(map[string]string{"configmaps": configMaps, "widgets": widgets}))
	harness.Eventually(t, "the config map is read", func() bool { return p.Store("configmaps")["default/before"] != "" })
	u.must(http.StatusCreated, configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"after"}}`)
	harness.Eventually(t, "the next one is seen by the watch", func() bool {
		return p.Store("configmaps")["default/after"] != ""
	})
	p.Stop()
}
