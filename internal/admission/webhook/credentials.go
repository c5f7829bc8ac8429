package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	webhookconfig "k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"github.com/gapless-io/gapless/internal/hook"
)

// The names of upstream's plugins, under which they are configured.
const (
	MutatingName   = "MutatingAdmissionWebhook"
	ValidatingName = "ValidatingAdmissionWebhook"
)

// Credentials are what the server shows the webhooks of a phase. The zero value is none.
type Credentials struct{ of hook.Credentials }

// Shown are the credentials for the webhooks of both phases.
type Shown struct{ Mutating, Validating Credentials }

// ReadShown reads those in the configurations of plugins, by their names. Errors: those of ReadCredentials, with the name.
func ReadShown(configurations map[string][]byte) (s Shown, err error) {
	for name, into := range map[string]*Credentials{MutatingName: &s.Mutating, ValidatingName: &s.Validating} {
		var wrong error
		if *into, wrong = ReadCredentials(configurations[name]); wrong != nil {
			err = errors.Join(err, fmt.Errorf("plugins (%s): %w", name, wrong))
		}
	}
	return s, err
}

// ReadCredentials reads the configuration of a plugin, a WebhookAdmissionConfiguration of apiserver.config.k8s.io/v1, and
// the kubeconfig that it names; an empty one is none. Whose credentials a webhook gets is as upstream (k8s.io/apiserver
// pkg/util/webhook/authentication.go): the user of the name HOST:PORT, with port 443 also HOST, *.DOMAIN, *, or the
// current context's. Errors name the file and the field; a user whose files cannot be read is one.
func ReadCredentials(configuration []byte) (Credentials, error) {
	var from io.Reader
	if len(configuration) > 0 {
		from = bytes.NewReader(configuration)
	}
	config, err := webhookconfig.LoadConfig(from)
	switch {
	case err != nil:
		return Credentials{}, err
	case config.StaticManifestsDir != "":
		return Credentials{}, errors.New("staticManifestsDir: this server reads no webhooks from files: create them as objects")
	case config.KubeConfigFile == "":
		return Credentials{}, nil
	}
	resolver, err := webhookutil.NewDefaultAuthenticationInfoResolver(config.KubeConfigFile)
	if err != nil {
		return Credentials{}, fmt.Errorf("kubeConfigFile %s: %w", config.KubeConfigFile, err)
	}
	if err := checkUsers(config.KubeConfigFile); err != nil {
		return Credentials{}, fmt.Errorf("kubeConfigFile %s: %w", config.KubeConfigFile, err)
	}
	return Credentials{resolver.ClientConfigFor}, nil
}

// checkUsers returns an error for a user of a kubeconfig whose credentials cannot be used.
func checkUsers(file string) error {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return err
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return err
	}
	names := make([]string, 0, len(config.AuthInfos))
	for name := range config.AuthInfos {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := checkUser(config.AuthInfos[name]); err != nil {
			return fmt.Errorf("users %q: %w", name, err)
		}
	}
	return nil
}

func checkUser(u *clientcmdapi.AuthInfo) error {
	if u.AuthProvider != nil {
		return errors.New("auth-provider: auth provider not supported") // upstream's text
	}
	if u.Exec != nil {
		return errors.New("exec: this server runs no programs for credentials: give a token, tokenFile, or client-certificate")
	}
	how, err := (&rest.Config{
		BearerToken: u.Token, BearerTokenFile: u.TokenFile, Username: u.Username, Password: u.Password,
		TLSClientConfig: rest.TLSClientConfig{
			CertFile: u.ClientCertificate, CertData: u.ClientCertificateData, KeyFile: u.ClientKey, KeyData: u.ClientKeyData,
		},
	}).TransportConfig()
	if err != nil {
		return err
	}
	if _, err := transport.TLSConfigFor(how); err != nil {
		return fmt.Errorf("client-certificate, client-key: %w", err)
	}
	if _, err := transport.HTTPWrappersForConfig(how, nil); err != nil { // it reads the token's file
		return fmt.Errorf("token, tokenFile: %w", err)
	}
	return nil
}
