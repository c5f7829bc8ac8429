package auth_test

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/internal/auth"
)

// TestClientKeyHasTheConfiguredAlgorithm starts on one directory again and
// again, with another wish each time.
func TestClientKeyHasTheConfiguredAlgorithm(t *testing.T) {
	dir := t.TempDir()
	const elliptic, rsa = "-----BEGIN EC PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----"
	var before map[string]string
	for i, c := range []struct {
		wish    auth.KeyAlgorithm
		form    string
		renewed bool
	}{
		{"", elliptic, true},
		{auth.ECDSA, elliptic, false},
		{auth.RSA, rsa, true},
		{auth.RSA, rsa, false},
		{"", rsa, false}, // what is there is kept
		{auth.ECDSA, elliptic, true},
	} {
		opened, err := auth.Open(dir, auth.Options{ClientKey: c.wish})
		if err != nil {
			t.Fatalf("open the credentials: %v", err)
		}
		sign(t, dir)
		after := files(t, dir)
		if !strings.HasPrefix(after["admin.key"], c.form) || !strings.HasPrefix(after["ca.key"], elliptic) ||
			!strings.HasPrefix(after["serving.key"], elliptic) {
			t.Errorf("start %d, %q: keys %.40s, %.40s, %.40s",
				i, c.wish, after["admin.key"], after["ca.key"], after["serving.key"])
		}
		for name, body := range after {
			renewed := c.renewed && (strings.HasPrefix(name, "admin.") || before == nil)
			if (before[name] != body) != renewed {
				t.Errorf("start %d, %q: %s was created again: %v", i, c.wish, name, !renewed)
			}
		}
		if _, err := opened.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
			t.Fatalf("write the kubeconfig: %v", err)
		}
		if faults, err := auth.Inspect(dir); err != nil || len(faults) > 0 {
			t.Errorf("start %d, %q: faults %+v, %v", i, c.wish, faults, err)
		}
		before = after
	}
}

func TestOnlyKnownAlgorithmsAreAccepted(t *testing.T) {
	for name, known := range map[string]bool{"": true, "ecdsa": true, "rsa": true, "RSA": false, "ed25519": false} {
		if a, err := auth.ParseKeyAlgorithm(name); (err == nil) != known || known && string(a) != name {
			t.Errorf("%q: %q, %v", name, a, err)
		}
	}
}

// TestEachContextOfTheKubeconfigReachesTheServer asks by the address and by the name
// localhost, with a key of either algorithm, in TLS 1.2 and 1.3.
func TestEachContextOfTheKubeconfigReachesTheServer(t *testing.T) {
	for _, algorithm := range []auth.KeyAlgorithm{auth.ECDSA, auth.RSA} {
		creds, err := auth.Open(t.TempDir(), auth.Options{ClientKey: algorithm})
		if err != nil {
			t.Fatalf("open the credentials: %v", err)
		}
		kubeconfig, err := creds.WriteKubeconfig("https://" + greet(t, creds.ServerTLS()))
		if err != nil {
			t.Fatalf("write the kubeconfig: %v", err)
		}
		for name, host := range map[string]string{"gapless": "127.0.0.1", "gapless-localhost": "localhost"} {
			cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
				&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{
					CurrentContext: name,
				}).ClientConfig()
			if err != nil {
				t.Fatalf("read the client configuration: %v", err)
			}
			if !strings.HasPrefix(cfg.Host, "https://"+host+":") {
				t.Errorf("the server of context %s is %s", name, cfg.Host)
			}
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				if got := ask(t, cfg, version); got != "gapless-admin" {
					t.Errorf("%s, %s, %s: greeted as %q", algorithm, name, tls.VersionName(version), got)
				}
			}
		}
	}
}

// greet answers with the name of the caller.
func greet(t *testing.T, cfg *tls.Config) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	srv := &http.Server{TLSConfig: cfg, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := auth.Certificates{}.Authenticate(r)
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("User", caller.GetName())
	})}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeTLS(l, "", "") }() // ends with Close
	t.Cleanup(func() {
		if err := errors.Join(srv.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// ask returns the name by which the server knows the client of a configuration.
func ask(t *testing.T, cfg *rest.Config, version uint16) string {
	t.Helper()
	settings, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatalf("make the TLS configuration: %v", err)
	}
	settings.MinVersion, settings.MaxVersion = version, version
	tr := &http.Transport{TLSClientConfig: settings, DisableKeepAlives: true}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host, nil)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Errorf("%s: %v", cfg.Host, err)
		return ""
	}
	_ = resp.Body.Close()
	return resp.Header.Get("User")
}

func TestLocalhostContextExistsOnlyIfTheServerListensThere(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	sign(t, dir)
	for server, want := range map[string]string{
		"https://127.0.0.1:6443": "https://localhost:6443", "https://[::1]:6443": "https://localhost:6443",
		"https://127.0.0.2:6443": "", "https://192.0.2.1:6443": "", "https://a.example:6443": "", "https://localhost:6443": "",
	} {
		path, err := c.WriteKubeconfig(server)
		if err != nil {
			t.Fatalf("write the kubeconfig: %v", err)
		}
		cfg, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatalf("load the file: %v", err)
		}
		got := ""
		if cluster := cfg.Clusters["gapless-localhost"]; cluster != nil {
			got = cluster.Server
		}
		if got != want || cfg.Clusters["gapless"].Server != server || (cfg.Contexts["gapless-localhost"] != nil) != (want != "") {
			t.Errorf("%s: %q, want %q", server, got, want)
		}
		if faults, err := auth.Inspect(dir); err != nil || len(faults) > 0 {
			t.Errorf("%s: faults %+v, %v", server, faults, err)
		}
	}
}

// TestKeysReadableByOthersAreReported is of what fsck finds; a start refuses them.
func TestKeysReadableByOthersAreReported(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	sign(t, dir)
	if _, err := c.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
		t.Fatalf("write the kubeconfig: %v", err)
	}
	before := files(t, dir)
	for name, wrong := range map[string]os.FileMode{
		"pki/ca.key": 0o644, "pki/sa.key": 0o604, "pki/serving.key": 0o602, "kubeconfig": 0o604,
	} {
		path := filepath.Join(dir, name)
		if err := os.Chmod(path, wrong); err != nil {
			t.Fatalf("change the mode of a file: %v", err)
		}
		faults, err := auth.Inspect(dir)
		if err != nil || len(faults) != 1 || faults[0].File != name || faults[0].Severity != auth.Repairable ||
			!strings.Contains(faults[0].Found, "every user of this machine") {
			t.Errorf("%s: %+v, %v", name, faults, err)
		}
		if err := auth.Repair(dir, t.TempDir(), faults); err != nil {
			t.Fatalf("repair the credentials: %v", err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s after the repair: %v, %v", name, info.Mode(), err)
		}
	}
	for name, body := range files(t, dir) {
		if before[name] != body {
			t.Errorf("%s was changed", name)
		}
	}
}

// TestDamagedKeysAndCertificatesTogetherAreReported: neither is checked against the other.
func TestDamagedKeysAndCertificatesTogetherAreReported(t *testing.T) {
	for _, form := range []string{"EC PRIVATE KEY", "RSA PRIVATE KEY", "PRIVATE KEY", "NO KEY"} {
		dir := t.TempDir()
		if _, err := open(t, dir).WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
			t.Fatalf("write the kubeconfig: %v", err)
		}
		for name, body := range map[string]string{
			"ca.key": "-----BEGIN " + form + "-----\nAAAA\n-----END " + form + "-----\n", "ca.crt": "nothing",
		} {
			if err := os.WriteFile(filepath.Join(dir, "pki", name), []byte(body), 0o600); err != nil {
				t.Fatalf("write a file: %v", err)
			}
		}
		found := map[string]auth.Severity{}
		faults, err := auth.Inspect(dir)
		for _, f := range faults {
			found[f.File] = f.Severity
		}
		if err != nil || found["pki/ca.key"] != auth.Beyond || found["pki/ca.crt"] != auth.Beyond {
			t.Errorf("%s: %+v, %v", form, faults, err)
		}
	}
}
