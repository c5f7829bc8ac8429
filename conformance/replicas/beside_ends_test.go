package replicas_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
)

// left are the plugins of kube-apiserver that are on by default there and not in gapless.
var left = []string{
	"LimitRanger", "ServiceAccount", "TaintNodesByCondition", "PodSecurity", "Priority", "DefaultTolerationSeconds",
	"DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "PersistentVolumeClaimResize",
	"RuntimeClass", "DefaultIngressClass", "ClusterTrustBundleAttest", "PodTopologyLabels", "NodeDeclaredFeatureValidator",
	"PodResizeValidator", "ResourceQuota",
}

// end is one of both servers, as a client with a certificate of the cluster's CA sees it.
type end struct {
	name, url string
	web       *http.Client
}

// reply is an answer.
type reply struct {
	code     int
	warnings []string
	text     []byte
}

// request is one request but for the server that it goes to.
type request struct {
	method, path, contentType string
	body                      []byte
}

// do sends a request, again where a server that is busy refuses it, or has not reached a resourceVersion yet.
func (e *end) do(ctx context.Context, r request) (reply, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := e.once(ctx, r)
		again := answer.code == http.StatusServiceUnavailable || answer.code == http.StatusTooManyRequests ||
			answer.code == http.StatusGatewayTimeout && r.method == http.MethodGet
		if err != nil || !again {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (e *end) once(ctx context.Context, r request) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, e.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return reply{}, fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("User-Agent", "beside/1")
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	resp, err := e.web.Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("%s at %s: %w", r.method, e.name, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, fmt.Errorf("%s at %s: read the answer: %w", r.method, e.name, err)
	}
	return reply{code: resp.StatusCode, warnings: resp.Header.Values("Warning"), text: text}, nil
}

// get reads an object or a list; nil is what there is not.
func (e *end) get(ctx context.Context, path string) (map[string]any, error) {
	r, err := e.do(ctx, request{method: http.MethodGet, path: path})
	switch {
	case err != nil:
		return nil, err
	case r.code == http.StatusNotFound:
		return nil, nil
	case r.code != http.StatusOK:
		return nil, fmt.Errorf("GET %s at %s: %d %s", path, e.name, r.code, r.text)
	}
	return tree(r.text)
}

// tree decodes an object, with numbers as they are written.
func tree(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var o map[string]any
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("decode %.200q: %w", text, err)
	}
	return o, nil
}

// both are a kube-apiserver and a replica over one etcd, with the same plugins of admission and without controllers.
type both struct {
	cluster  *harness.Cluster
	gapless  *replica
	dir, etc string // the directory of the replica, and that of the configurations of encryption
	config   func(*gapless.Config)
	upstream *end
	ours     *end
}

// startBoth starts both, which encrypt Secrets by some providers of an EncryptionConfiguration.
func startBoth(t *testing.T, providers string) *both {
	t.Helper()
	b := &both{dir: t.TempDir(), etc: t.TempDir()}
	b.cluster = harness.StartCluster(t, "--allow-privileged=true", "--disable-admission-plugins="+strings.Join(left, ","),
		"--encryption-provider-config="+b.encrypt(t, "kube-apiserver", providers))
	file, authority := b.encrypt(t, "gapless", providers), writeFile(t, b.etc, "ca.crt", b.cluster.Admin.CA)
	b.config = func(cfg *gapless.Config) {
		cfg.EncryptionProviderConfig = file
		cfg.Authentication.ClientCAFile = authority
		cfg.Etcd.HealthcheckTimeout = 5 * time.Minute // the machine may be busy
		cfg.Controllers = []string{"-namespace-controller", "-garbage-collector-controller"}
	}
	b.upstream = b.end(t, "kube-apiserver", b.cluster.URL, b.cluster.Admin.CA)
	b.startGapless(t)
	return b
}

// encrypt writes the configuration of encryption that a server has from its next start on, and returns the file.
func (b *both) encrypt(t *testing.T, server, providers string) string {
	t.Helper()
	return writeFile(t, b.etc, server+".yaml", []byte(`{"apiVersion":"apiserver.config.k8s.io/v1",
		"kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[`+providers+`]}]}`))
}

// startGapless starts the replica, again if it was stopped.
func (b *both) startGapless(t *testing.T) {
	t.Helper()
	b.gapless = start(t, b.cluster.EtcdURL(), b.dir, b.config)
	cfg := b.gapless.RESTConfig()
	b.ours = b.end(t, "gapless", cfg.Host, cfg.CAData)
}

func (b *both) end(t *testing.T, name, url string, authority []byte) *end {
	t.Helper()
	admin := b.cluster.Admin
	own, err := tls.X509KeyPair(admin.Cert, admin.Key)
	if err != nil {
		t.Fatalf("read the client's certificate: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &end{name: name, url: url, web: &http.Client{Transport: transport}}
}

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
	return path
}

// jsonOf encodes what was decoded.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode a tree: %v", err))
	}
	return string(text)
}
