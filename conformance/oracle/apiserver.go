package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	"k8s.io/klog/v2"
)

// unusable is a kubeconfig that reaches no server. The server needs one for delegated
// authentication and authorization, which no request here uses: the loopback token
// belongs to system:masters.
const unusable = `apiVersion: v1
kind: Config
clusters: [{name: nowhere, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
users: [{name: nobody, user: {}}]
current-context: nowhere
`

// apiServer is one life of the API server.
type apiServer struct {
	endpoint Endpoint
	stop     func()
}

func startAPIServer(ctx context.Context, etcdURL string, options Options) (*apiServer, error) {
	kubeconfig := filepath.Join(options.Dir, "nobody.kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(unusable), 0o600); err != nil {
		return nil, fmt.Errorf("write the API server's kubeconfig: %w", err)
	}
	flags := append([]string{
		"--etcd-servers", etcdURL,
		"--etcd-prefix", "/oracle",
		"--authentication-skip-lookup",
		"--authentication-kubeconfig", kubeconfig,
		"--authorization-kubeconfig", kubeconfig,
		"--kubeconfig", kubeconfig,
		"--enable-priority-and-fairness=false",
		"--disable-admission-plugins=NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy,MutatingAdmissionPolicy",
	}, options.Flags...)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start the API server: %w", context.Cause(ctx))
	}
	server, err := testing.StartTestServer(&said{}, testing.NewDefaultTestServerOptions(), flags, nil)
	if err != nil {
		return nil, fmt.Errorf("start the API server: %w", err)
	}
	// The certificate for 127.0.0.1, and the authority behind it; the one in the
	// client configuration is for loopback by another name.
	pem, err := os.ReadFile(server.ServerOpts.RecommendedOptions.SecureServing.ServerCert.CertKey.CertFile)
	if err != nil {
		server.TearDownFn()
		return nil, fmt.Errorf("read the serving certificate: %w", err)
	}
	return &apiServer{
		endpoint: Endpoint{URL: server.ClientConfig.Host, Token: server.ClientConfig.BearerToken, CA: string(pem)},
		stop:     server.TearDownFn,
	}, nil
}

// setLog sends what the API server logs to w.
func setLog(w io.Writer) {
	if w == nil {
		w = io.Discard
	}
	klog.LogToStderr(false)
	klog.SetOutput(w)
}

// said stands in for upstream's *testing.T where there is no test. StartTestServer
// returns its errors, so nothing that matters is said here.
type said struct{}

// Logf drops progress reports.
func (*said) Logf(string, ...any) {}

// Errorf drops what is returned as an error as well.
func (*said) Errorf(string, ...any) {}

// Fatalf is for StartTestServerOrDie, which is not used.
func (*said) Fatalf(format string, args ...any) {
	panic(errors.New("oracle: unexpected Fatalf: " + fmt.Sprintf(format, args...)))
}
