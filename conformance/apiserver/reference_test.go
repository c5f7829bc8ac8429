package apiserver_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
)

// left are plugins that refuse pods or change them where no controllers make accounts and limits: the scripts that are
// about something else do without.
var left = []string{
	"LimitRanger", "ServiceAccount", "PodSecurity", "PodGroupProtection", "ClusterTrustBundleAttest",
	"NodeDeclaredFeatureValidator", "PodResizeValidator", "ResourceQuota",
}

// optional are plugins that are off by default, which scripts have on; others more of them, which only the scripts about all
// plugins, and random moves, have on.
var (
	optional = []string{
		"AlwaysPullImages", "DenyServiceExternalIPs", "StorageObjectInUseProtection", // which gapless has off in a directory
	}
	others = []string{
		"ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology", "NamespaceExists", "NodeRestriction",
		"OwnerReferencesPermissionEnforcement", "PodNodeSelector", "PodTolerationRestriction",
		"ServiceAccount", // gapless has it off where no controller makes accounts
	}
)

// switches are the flags that turn plugins off, and others on.
func switches(off, on []string) []string {
	return []string{
		"--disable-admission-plugins=" + strings.Join(off, ","), "--enable-admission-plugins=" + strings.Join(on, ","),
	}
}

// issuer is that of the tokens of both servers, which have one key.
const issuer = "https://kubernetes.default.svc.cluster.local"

// reference is a kube-apiserver in a process of its own, over an etcd in this one.
type reference struct {
	target play.Target
	audit  string // the file of its audit log
	etcd   string // the URL of its etcd
}

// common are the flags that both servers have.
func common(t *testing.T, key, audit string) []string {
	t.Helper()
	file := func(name string) string {
		path, err := filepath.Abs(filepath.Join("testdata", name))
		if err != nil {
			t.Fatalf("abs: %v", err)
		}
		return path
	}
	return []string{
		"--anonymous-auth=true", "--token-auth-file=" + file("callers.csv"),
		"--audit-policy-file=" + file("audit.yaml"), "--audit-log-path=" + audit, "--service-account-issuer=" + issuer,
		"--service-account-signing-key-file=" + key, "--service-account-key-file=" + key,
	}
}

// newKey writes a key for the tokens of service accounts, and returns its file.
func newKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatalf("marshal EC private key: %v", err)
	}
	path := filepath.Join(t.TempDir(), "sa.key")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return path
}

// startReference builds and starts it, waits until it is ready, and ends it with the test. The
// program stays outside the checkout, so that it is linked only once.
func startReference(t *testing.T, key string, more []string) *reference {
	t.Helper()
	tools, dir := harness.CacheDir(t, "apiserver"), t.TempDir()
	harness.Must(t, "program", []string{"GOBIN=" + tools, "GOWORK=auto"}, "go", "install", "-ldflags=-s -w", "tool")
	member := etcd.StartFor(t, etcd.Options{Dir: dir, NoSync: true})
	r := &reference{audit: filepath.Join(dir, "audit.log"), etcd: member.URL()}
	certificates, port := filepath.Join(dir, "certificates"), freePort(t)
	args := append([]string{
		"--etcd-servers=" + member.URL(), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		"--cert-dir=" + certificates, "--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true",
		"--endpoint-reconciler-type=none", "--enable-aggregator-routing=false",
		"--shutdown-delay-duration=0s",
		// A write that begins with an old state from the cache asks webhooks twice.
		"--watch-cache=false",
		"--audit-log-mode=blocking",
	}, append(common(t, key, r.audit), more...)...)
	var log bytes.Buffer
	// Not to end with the test's context: the process is to be signalled, not killed.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(tools, "kube-apiserver"), args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	ended := make(chan error, 1)
	go func() { // ends with the process
		ended <- cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		// A graceful end waits for watches of its own, up to a minute.
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Errorf("end kube-apiserver: %v", err)
		}
		<-ended
		if t.Failed() {
			t.Logf("output of kube-apiserver:\n%s", tail(log.String()))
		}
	})
	r.wait(t, port, filepath.Join(certificates, "apiserver.crt"), ended)
	return r
}

// wait returns when the server is ready, or fails the test if its process has ended.
func (r *reference) wait(t *testing.T, port, certificate string, ended <-chan error) {
	t.Helper()
	// It takes seconds, on a machine that is busy minutes: only the end of the process, or that of
	// the test, ends the wait.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !r.ready(t, port, certificate) {
		select {
		case err := <-ended:
			t.Fatalf("kube-apiserver ended: %v", err)
		case <-t.Context().Done():
			t.Fatal("kube-apiserver is never ready")
		case <-tick.C:
		}
	}
}

// ready reports whether the server is, and says how to reach it.
func (r *reference) ready(t *testing.T, port, certificate string) bool {
	t.Helper()
	authority, err := os.ReadFile(certificate)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	r.target = play.Target{URL: "https://127.0.0.1:" + port, TLS: &tls.Config{RootCAs: roots}, Token: "root"}
	code, _ := get(t, r.target, "/readyz")
	return code == http.StatusOK
}

// freePort returns a port that was free: kube-apiserver cannot choose one itself.
func freePort(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen config: %v", err)
	}
	defer func() { _ = l.Close() }() // it listened
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatalf("split an address: %v", err)
	}
	return port
}

// tail is the end of a log.
func tail(log string) string {
	const most = 20_000
	if len(log) > most {
		return fmt.Sprintf("[%d bytes]\n", len(log)-most) + log[len(log)-most:]
	}
	return log
}
