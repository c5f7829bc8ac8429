package webhook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/admission/webhook"
)

// TestCredentialsThatCannotBeUsedAreRefused names the file and the field of each.
func TestCredentialsThatCannotBeUsedAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\n"
	users := func(user string) string {
		return "apiVersion: v1\nkind: Config\nusers: [{name: '*.example.com', user: {" + user + "}}]"
	}
	for _, c := range []struct{ configuration, kubeconfig, want string }{
		{configuration: ""},
		{configuration: head},
		{configuration: head + "kubeConfigFile: " + file, kubeconfig: users("token: t")},
		{head + "kubeConfigFile: kubeconfig", "", "kubeConfigFile: Invalid value"},
		{head + "kubeconfigfile: " + file, "", `unknown field "kubeconfigfile"`},
		{head + "staticManifestsDir: " + dir, "", "staticManifestsDir: this server reads no webhooks from files"},
		{"apiVersion: v1\nkind: Pod", "", `no kind "Pod" is registered`},
		{head + "kubeConfigFile: " + file + ".none", "", "kubeConfigFile " + file + ".none: "},
		{head + "kubeConfigFile: " + file, "a: [", "kubeConfigFile " + file + ": "},
		{
			head + "kubeConfigFile: " + file, users("tokenFile: none"),
			"kubeConfigFile " + file + `: users "*.example.com": token, tokenFile: `,
		},
		{head + "kubeConfigFile: " + file, users("client-certificate: none, client-key: none"), "none"},
		{head + "kubeConfigFile: " + file, users("client-certificate-data: bm8=, client-key-data: bm8="), "client-certificate, "},
		{head + "kubeConfigFile: " + file, users("auth-provider: {name: gcp}"), `users "*.example.com": auth-provider: `},
		{
			head + "kubeConfigFile: " + file,
			users("exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}"),
			`users "*.example.com": exec: this server runs no programs`,
		},
	} {
		if err := os.WriteFile(file, []byte(c.kubeconfig), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		_, err := webhook.ReadCredentials([]byte(c.configuration))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s\n%s: %v, want %q", c.configuration, c.kubeconfig, err, c.want)
		}
	}
}
