package serve_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/serve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at is a listener that says it has an address.
type at struct {
	net.Listener

	address *net.TCPAddr
}

func (a at) Addr() net.Addr { return a.address }

func TestTheURLOfAllInterfacesIsTheLoopbackOnes(t *testing.T) {
	for ip, want := range map[string]string{
		"0.0.0.0": "https://127.0.0.1:6443", "::": "https://127.0.0.1:6443",
		"10.0.0.7": "https://10.0.0.7:6443", "::1": "https://[::1]:6443",
	} {
		if got := serve.URL(at{address: &net.TCPAddr{IP: net.ParseIP(ip), Port: 6443}}); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}

func TestAnAddressInUseIsSaidWithWhatToDo(t *testing.T) {
	first, err := serve.Listen(t.Context(), nil, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer func() { _ = first.Close() }()
	if given, err := serve.Listen(t.Context(), first, "ignored"); given != first || err != nil {
		t.Errorf("a listener that is given: %v, %v", given, err)
	}
	second, err := serve.Listen(t.Context(), nil, first.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "use another address") {
		t.Errorf("listen on an address in use: %v, %v", second, err)
	}
}

func TestServersReplicasAndRelaysRefuseEachOthersDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		has                    string
		server, replica, relay bool
	}{
		"missing": {"", true, true, true}, "empty": {".", true, true, true}, "a server's": {"log", true, false, false},
		"a replica's": {serve.ReplicaDir, false, true, false}, "one with certificates": {"pki", true, true, false},
		"a relay's": {serve.MirrorDir, false, false, true}, "another program's": {"src", false, false, false},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if c.has != "" {
			if err := os.MkdirAll(filepath.Join(dir, c.has), 0o700); err != nil {
				t.Fatalf("make the directory: %v", err)
			}
		}
		if err := serve.CheckServerDir(dir, false); (err == nil) != c.server {
			t.Errorf("%s for a server: %v", name, err)
		}
		if err := serve.CheckServerDir(dir, true); (err == nil) != c.replica {
			t.Errorf("%s for a server whose objects are in etcd: %v", name, err)
		}
		if err := serve.CheckRelayDir(dir); (err == nil) != c.relay {
			t.Errorf("%s for a relay: %v", name, err)
		}
	}
}

func TestKeysThatOthersCanReadAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("file modes do not have the permissions")
	}
	key := filepath.Join(t.TempDir(), "key")
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o640: true, 0o604: false, 0o602: false} {
		if err := os.WriteFile(key, nil, mode); err != nil {
			t.Fatalf("write the key: %v", err)
		}
		if err := os.Chmod(key, mode); err != nil {
			t.Fatalf("change its mode: %v", err)
		}
		if err := serve.CheckPrivate(t.Context(), key, slog.New(slog.DiscardHandler)); (err == nil) != fine {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

func TestOnlyWhatAStartHasMadeIsRemoved(t *testing.T) {
	there := t.TempDir()
	dir := filepath.Join(there, "a", "b")
	made, err := serve.Missing(dir)
	if err != nil {
		t.Fatalf("look what is missing: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o700); err != nil {
		t.Fatalf("make the directory: %v", err)
	}
	serve.RemoveEmpty(made)
	if left, err := os.ReadDir(there); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestAStopDoesNotWaitForConnectionsWithoutARequest stops a server whose client keeps its connection.
func TestAStopDoesNotWaitForConnectionsWithoutARequest(t *testing.T) {
	busy := serve.NewBusy()
	web := &http.Server{Handler: http.NotFoundHandler(), ConnState: busy.Note} //nolint:gosec // a test
	listener, err := serve.Listen(t.Context(), nil, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }() // it ends with Shutdown
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("send the request: %v", err)
	}
	_ = resp.Body.Close()
	if err := busy.Shutdown(context.WithoutCancel(t.Context()), web); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := <-ended; err != http.ErrServerClosed { //nolint:errorlint // it is that one
		t.Errorf("serve: %v", err)
	}
}
