// Package testing has the declarations of upstream's cmd/kube-apiserver/app/testing, and starts the built program.
package testing

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storageversion"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/test/utils/ktesting"

	"github.com/gapless-io/gapless/conformance/apiserver/program/integration/server"
)

// TearDownFunc ends a server.
type TearDownFunc func()

// TestServerInstanceOptions are upstream's. Those that need its server in this process are refused.
type TestServerInstanceOptions struct {
	SkipHealthzCheck       bool
	DisableInvariantChecks bool
	EnableCertAuth         bool
	StorageVersionWrapFunc func(storageversion.Manager) storageversion.Manager
	ProxyCA                *ProxyCA
	BinaryVersion          string
	RequestTimeout         time.Duration
}

// ProxyCA is an authority for the certificates of front proxies.
type ProxyCA struct {
	ProxySigningCert *x509.Certificate
	ProxySigningKey  *rsa.PrivateKey
}

// TestServer is a running server.
type TestServer struct {
	ClientConfig      *rest.Config
	ServerOpts        *options.ServerRunOptions
	TearDownFn        TearDownFunc
	TmpDir            string
	EtcdClient        *clientv3.Client
	EtcdStoragePrefix string
}

// Logger is upstream's.
type Logger interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Cleanup(func())
}

// NewDefaultTestServerOptions returns upstream's.
func NewDefaultTestServerOptions() *TestServerInstanceOptions {
	return &TestServerInstanceOptions{EnableCertAuth: true}
}

// StartTestServerOrDie is StartTestServer, whose error ends the test.
func StartTestServerOrDie(t testing.TB, of *TestServerInstanceOptions, flags []string, storage *storagebackend.Config,
) *TestServer {
	t.Helper()
	s, err := StartTestServer(t, of, flags, storage)
	if err != nil {
		t.Fatalf("failed to launch server: %v", err)
	}
	return &s
}

// StartTestServer starts the program. Flags are those of kube-apiserver.
func StartTestServer(t ktesting.TB, of *TestServerInstanceOptions, flags []string, storage *storagebackend.Config,
) (TestServer, error) {
	if of == nil {
		of = NewDefaultTestServerOptions()
	}
	if of.StorageVersionWrapFunc != nil || of.BinaryVersion != "" {
		return TestServer{}, errors.New("the test changes upstream's server itself, in this process")
	}
	dir, err := os.MkdirTemp("", "testserver")
	if err != nil {
		return TestServer{}, err
	}
	all := []string{"--service-cluster-ip-range=10.0.0.0/16"}
	if of.EnableCertAuth {
		more, err := certificates(dir, of.ProxyCA)
		if err != nil {
			return TestServer{}, err
		}
		all = append(all, more...)
	}
	key, err := server.WriteKey(dir)
	if err != nil {
		return TestServer{}, err
	}
	all = server.Merge(server.Merge(all, flags), []string{
		"--service-account-issuer=https://foo.bar.example.com",
		"--service-account-signing-key-file=" + key, "--service-account-key-file=" + key,
		"--etcd-prefix=" + storage.Prefix, "--etcd-servers=" + storage.Transport.ServerList[0],
	})
	s, err := server.Start(all)
	if err != nil {
		return TestServer{}, err
	}
	return finish(t, of, s, TestServer{
		TmpDir: dir, EtcdStoragePrefix: storage.Prefix, ServerOpts: parsed(s.Dir, flags),
	}, storage)
}

// finish waits for the server, and adds what a test has of it.
func finish(t ktesting.TB, of *TestServerInstanceOptions, s *server.Server, result TestServer, storage *storagebackend.Config,
) (TestServer, error) {
	if !of.SkipHealthzCheck {
		if err := s.WaitUntilReady(context.Background()); err != nil {
			return result, err
		}
	}
	var err error
	if result.EtcdClient, _, err = GetEtcdClients(storage.Transport); err != nil {
		return result, errors.Join(err, s.Stop())
	}
	result.ClientConfig = rest.CopyConfig(s.Config)
	ca, err := os.ReadFile(result.ClientConfig.CAFile)
	if err != nil {
		return result, errors.Join(err, s.Stop())
	}
	result.ClientConfig.CAFile, result.ClientConfig.CAData = "", ca
	result.ClientConfig.QPS, result.ClientConfig.Burst = 1000, 10000
	var down bool
	result.TearDownFn = func() {
		if down {
			return
		}
		down = true
		if err := errors.Join(s.Stop(), result.EtcdClient.Close(), os.RemoveAll(result.TmpDir)); err != nil {
			t.Errorf("stop the program: %v", err)
		}
		if t.Failed() {
			t.Logf("output of the program:\n%s", s.Output())
		}
	}
	t.Cleanup(result.TearDownFn)
	return result, nil
}

// parsed are upstream's options as the flags make them, of which tests read a few.
func parsed(dir string, flags []string) *options.ServerRunOptions {
	s := options.NewServerRunOptions()
	all := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		all.AddFlagSet(set)
	}
	_ = all.Parse(flags) // the program says what it does not know
	s.SecureServing.ServerCert.CertDirectory = dir
	return s
}

// certificates are the flags about the certificates of clients and of front proxies, and of the server as a front proxy.
func certificates(dir string, of *ProxyCA) ([]string, error) {
	proxies, err := server.NewAuthority("front-proxy-ca")
	if err != nil {
		return nil, err
	}
	if of != nil {
		proxies = &server.Authority{Cert: of.ProxySigningCert, Key: of.ProxySigningKey}
	}
	clients, err := server.NewAuthority("client-ca")
	if err != nil {
		return nil, err
	}
	proxyCA, err := proxies.WriteCA(dir, "proxy-ca.crt")
	if err != nil {
		return nil, err
	}
	clientCA, err := clients.WriteCA(dir, "client-ca.crt")
	if err != nil {
		return nil, err
	}
	cert, key, err := proxies.WriteIssued(dir, "misty-crt", &x509.Certificate{
		Subject: pkix.Name{CommonName: "misty"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return []string{
		"--requestheader-client-ca-file=" + proxyCA, "--requestheader-allowed-names=ash,misty,brock",
		"--requestheader-username-headers=x-remote-user", "--requestheader-group-headers=x-remote-group",
		"--requestheader-extra-headers-prefix=x-remote-extra-",
		"--client-ca-file=" + clientCA, "--proxy-client-cert-file=" + cert, "--proxy-client-key-file=" + key,
	}, err
}

// GetEtcdClients returns clients of the etcd.
func GetEtcdClients(of storagebackend.TransportConfig) (*clientv3.Client, clientv3.KV, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: of.ServerList, DialTimeout: 20 * time.Second})
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of etcd: %w", err)
	}
	return client, clientv3.NewKV(client), nil
}
