package accounts

import (
	"fmt"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// limitAll returns the first secret of a new pod that its account does not list, as an error.
func (a *Account) limitAll(spec map[string]any) error {
	secrets := names(a.Secrets)
	for volume := range tree.Items(spec, "volumes") {
		secret, is := volume["secret"].(map[string]any)
		if name := plugins.Text(secret, "secretName"); is && !secrets[name] {
			return fmt.Errorf("volume with secret.secretName=\"%s\" is not allowed because service account %s does not "+
				"reference that secret", name, a.Metadata.Name)
		}
	}
	for _, of := range []struct{ list, kind string }{{"initContainers", "init container"}, {"containers", "container"}} {
		if err := a.limit(spec, secrets, of.list, of.kind); err != nil {
			return err
		}
	}
	forImages, i := names(a.ImagePullSecrets), 0
	for secret := range tree.Items(spec, "imagePullSecrets") {
		if name := plugins.Text(secret, "name"); !forImages[name] {
			return fmt.Errorf("imagePullSecrets[%d].name=\"%s\" is not allowed because service account %s does not reference "+
				"that imagePullSecret", i, name, a.Metadata.Name)
		}
		i++
	}
	return nil
}

// limit returns the first secret in the environment of the containers of a list that is none of secrets, as an error.
// Kind is what upstream calls such a container.
func (a *Account) limit(spec map[string]any, secrets map[string]bool, list, kind string) error {
	for c := range tree.Items(spec, list) {
		for env := range tree.Items(c, "env") {
			secret, is := tree.Child(env, "valueFrom")["secretKeyRef"].(map[string]any)
			if name := plugins.Text(secret, "name"); is && !secrets[name] {
				return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=\"%s\" is not allowed because service "+
					"account %s does not reference that secret",
					kind, plugins.Text(c, "name"), plugins.Text(env, "name"), name, a.Metadata.Name)
			}
		}
		for env := range tree.Items(c, "envFrom") {
			secret, is := env["secretRef"].(map[string]any)
			if name := plugins.Text(secret, "name"); is && !secrets[name] {
				return fmt.Errorf("%s %s with envFrom referencing secret.secretName=\"%s\" is not allowed because service "+
					"account %s does not reference that secret", kind, plugins.Text(c, "name"), name, a.Metadata.Name)
			}
		}
	}
	return nil
}

func names(secrets []reference) map[string]bool {
	all := make(map[string]bool, len(secrets))
	for _, secret := range secrets {
		all[secret.Name] = true
	}
	return all
}

// hasSecrets reports whether a pod uses a secret: pkg/api/pod VisitPodSecretNames.
func hasSecrets(spec map[string]any) bool {
	for secret := range tree.Items(spec, "imagePullSecrets") {
		if plugins.Text(secret, "name") != "" {
			return true
		}
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for c := range tree.Items(spec, list) {
			for env := range tree.Items(c, "envFrom") {
				if plugins.Text(tree.Child(env, "secretRef"), "name") != "" {
					return true
				}
			}
			for env := range tree.Items(c, "env") {
				if plugins.Text(tree.Child(env, "valueFrom", "secretKeyRef"), "name") != "" {
					return true
				}
			}
		}
	}
	for volume := range tree.Items(spec, "volumes") {
		if usesSecret(volume) {
			return true
		}
	}
	return false
}

func usesSecret(volume map[string]any) bool {
	for _, source := range []string{"azureFile", "secret"} {
		if plugins.Text(tree.Child(volume, source), "secretName") != "" {
			return true
		}
	}
	for _, source := range []string{"cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"} {
		if plugins.Text(tree.Child(volume, source, "secretRef"), "name") != "" {
			return true
		}
	}
	for source := range tree.Items(tree.Child(volume, "projected"), "sources") {
		if plugins.Text(tree.Child(source, "secret"), "name") != "" {
			return true
		}
	}
	return plugins.Text(tree.Child(volume, "csi", "nodePublishSecretRef"), "name") != ""
}

// hasToken reports whether a pod has a volume with a token.
func hasToken(spec map[string]any) bool {
	for volume := range tree.Items(spec, "volumes") {
		for source := range tree.Items(tree.Child(volume, "projected"), "sources") {
			if source["serviceAccountToken"] != nil {
				return true
			}
		}
	}
	return false
}
