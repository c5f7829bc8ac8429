// Package framework has the declarations of upstream's test/integration/framework, and starts the built program. Its
// other files are upstream's, which are added when the tests run.
package framework

import (
	"context"
	"errors"
	"os"
	"path"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/gapless-io/gapless/conformance/apiserver/program/integration/server"
)

// TestServerSetup is upstream's.
type TestServerSetup struct {
	ModifyServerRunOptions func(*options.ServerRunOptions)
	ModifyServerConfig     func(*controlplane.Config)
	DisableInvariantChecks bool
}

// TearDownFunc ends a server.
type TearDownFunc func()

// GetEtcdURL returns the URL of the etcd.
func GetEtcdURL() string { return os.Getenv(server.Etcd) }

// EtcdMain is upstream's, which is not called: the etcd is there.
func EtcdMain(func() int) {}

// StartTestServer starts the program with the flags that make upstream's options what the test changes them to. What
// the test replaces in the configuration of upstream's server, who knows callers and who decides, stays in this
// process, and the program asks it as a webhook.
func StartTestServer(ctx context.Context, t testing.TB, setup TestServerSetup,
) (kubernetes.Interface, *rest.Config, TearDownFunc) {
	t.Helper()
	dir, err := os.MkdirTemp("", "framework")
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	opts, err := newOptions(dir)
	if err != nil {
		t.Fatalf("make options: %v", err)
	}
	if setup.ModifyServerRunOptions != nil {
		setup.ModifyServerRunOptions(opts)
	}
	flags, asked := server.Flags(opts), newOutside()
	if setup.ModifyServerConfig != nil {
		if asked, err = modify(opts, setup.ModifyServerConfig); err != nil {
			t.Fatalf("modify the configuration: %v", err)
		}
		more, err := asked.flags(t, dir, opts)
		if err != nil {
			t.Fatalf("serve webhooks: %v", err)
		}
		flags = server.Merge(flags, more)
	}
	s, err := server.Start(flags)
	if err != nil {
		t.Fatalf("start the program: %v", err)
	}
	if err := s.WaitUntilReady(ctx); err != nil {
		t.Fatalf("wait for the program: %v", err)
	}
	config := rest.CopyConfig(s.Config)
	if asked.nobody {
		config.BearerToken = "anybody"
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	var down bool
	tearDown := func() {
		if down {
			return
		}
		down = true
		if err := errors.Join(s.Stop(), os.RemoveAll(dir)); err != nil {
			t.Errorf("stop the program: %v", err)
		}
		if t.Failed() {
			t.Logf("output of the program:\n%s", s.Output())
		}
	}
	t.Cleanup(tearDown)
	return client, config, tearDown
}

// newOptions are upstream's for this function, with what they name in files of a directory.
func newOptions(dir string) (*options.ServerRunOptions, error) {
	clients, err := server.NewAuthority("client-ca")
	if err != nil {
		return nil, err
	}
	clientCA, err := clients.WriteCA(dir, "client-ca.crt")
	if err != nil {
		return nil, err
	}
	proxies, err := server.NewAuthority("front-proxy-ca")
	if err != nil {
		return nil, err
	}
	proxyCA, err := proxies.WriteCA(dir, "proxy-ca.crt")
	if err != nil {
		return nil, err
	}
	key, err := server.WriteKey(dir)
	if err != nil {
		return nil, err
	}
	opts := options.NewServerRunOptions()
	opts.SecureServing.ServerCert.CertDirectory = dir
	opts.ServiceAccountSigningKeyFile = key
	opts.Etcd.StorageConfig.Prefix = path.Join("/", uuid.NewString(), "registry")
	opts.Etcd.StorageConfig.Transport.ServerList = []string{GetEtcdURL()}
	opts.ServiceClusterIPRanges = "10.0.0.0/24"
	opts.Authentication.RequestHeader.UsernameHeaders = []string{"X-Remote-User"}
	opts.Authentication.RequestHeader.GroupHeaders = []string{"X-Remote-Group"}
	opts.Authentication.RequestHeader.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	opts.Authentication.RequestHeader.AllowedNames = []string{"kube-aggregator"}
	opts.Authentication.RequestHeader.ClientCAFile = proxyCA
	opts.Authentication.APIAudiences = []string{"https://foo.bar.example.com"}
	opts.Authentication.ServiceAccounts.Issuers = []string{"https://foo.bar.example.com"}
	opts.Authentication.ServiceAccounts.KeyFiles = []string{key}
	opts.Authentication.ClientCert.ClientCA = clientCA
	opts.Authorization.Modes = []string{"Node", "RBAC"}
	return opts, nil
}

// modify lets a test change a configuration of upstream's server, and returns what it has changed.
func modify(opts *options.ServerRunOptions, change func(*controlplane.Config)) (*outside, error) {
	o := newOutside()
	private, err := keyutil.PrivateKeyFromFile(opts.ServiceAccountSigningKeyFile)
	if err != nil {
		return nil, err
	}
	config := &controlplane.Config{}
	config.ControlPlane.Generic = &genericapiserver.Config{
		LoopbackClientConfig: &rest.Config{BearerToken: "set"}, EnableProfiling: true,
	}
	config.ControlPlane.Generic.Authentication.Authenticator = anonymous.NewAuthenticator(nil)
	config.ControlPlane.Generic.Authentication.APIAudiences = opts.Authentication.APIAudiences
	config.ControlPlane.Generic.Authorization.Authorizer = o
	if config.ControlPlane.Extra.ServiceAccountIssuer, err = serviceaccount.JWTTokenGenerator(
		opts.Authentication.ServiceAccounts.Issuers[0], private); err != nil {
		return nil, err
	}
	before := *config.ControlPlane.Generic
	change(config)
	after := config.ControlPlane
	if after.Generic.Authentication.Authenticator != before.Authentication.Authenticator {
		o.authenticator = after.Generic.Authentication.Authenticator
	}
	if after.Generic.Authorization.Authorizer != before.Authorization.Authorizer {
		o.authorizer = after.Generic.Authorization.Authorizer
	}
	o.nobody = after.Generic.LoopbackClientConfig.BearerToken == ""
	if after.Generic.AdmissionControl != nil { // with one plugin, which is on by default
		o.more = append(o.more, "--disable-admission-plugins=ServiceAccount")
	}
	if after.Extra.ServiceAccountMaxExpiration != 0 {
		o.more = append(o.more, "--service-account-max-token-expiration="+after.Extra.ServiceAccountMaxExpiration.String())
	}
	return o, nil
}
