package accounts

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

const (
	// tokenVolume begins the names of volumes with tokens.
	tokenVolume = "kube-api-access-"
	// tokenPath is where containers have the token.
	tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is how long a token is valid: an hour, and so much more that the API server knows tokens of this
	// volume by it and prolongs them (pkg/serviceaccount WarnOnlyBoundTokenExpirationSeconds).
	tokenSeconds = 60*60 + 7
	// randomLetters is the length of what apiserver storage/names generates.
	randomLetters = 5
)

// mount mounts a volume with a token into the containers that have nothing else at its path, and adds the volume if it
// is not there.
func mount(spec map[string]any) {
	name, has, mounted := "", false, false
	for volume := range tree.Items(spec, "volumes") {
		if name = plugins.Text(volume, "name"); strings.HasPrefix(name, tokenVolume) {
			has = true
			break
		}
	}
	if !has {
		name = tokenVolume + rand.String(randomLetters)
	}
	for _, list := range []string{"initContainers", "containers"} {
		for c := range tree.Items(spec, list) {
			if hasTokenPath(c) {
				continue
			}
			mounts, _ := c["volumeMounts"].([]any)
			c["volumeMounts"] = append(mounts, map[string]any{"name": name, "readOnly": true, "mountPath": tokenPath})
			mounted = true
		}
	}
	if mounted && !has {
		volumes, _ := spec["volumes"].([]any)
		spec["volumes"] = append(volumes, map[string]any{"name": name, "projected": tokenSources()})
	}
}

func hasTokenPath(container map[string]any) bool {
	for m := range tree.Items(container, "volumeMounts") {
		if m["mountPath"] == tokenPath {
			return true
		}
	}
	return false
}

func tokenSources() map[string]any {
	return map[string]any{
		"defaultMode": int64(corev1.ProjectedVolumeSourceDefaultMode),
		"sources": []any{
			map[string]any{"serviceAccountToken": map[string]any{"path": "token", "expirationSeconds": int64(tokenSeconds)}},
			map[string]any{"configMap": map[string]any{
				"name": "kube-root-ca.crt", "items": []any{map[string]any{"key": "ca.crt", "path": "ca.crt"}},
			}},
			map[string]any{"downwardAPI": map[string]any{"items": []any{map[string]any{
				"path": "namespace", "fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.namespace"},
			}}}},
		},
	}
}
