package gapless_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/seam"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// TestAHangingDiskMakesTheServerNotReady holds a sync. A restart would not help, and reads and
// watches go on: /livez stays ok.
func TestAHangingDiskMakesTheServerNotReady(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	var held atomic.Bool
	released := make(chan struct{})
	files := seam.NewDisk()
	files.PutInFront(func(fs disk.FS) disk.FS {
		return heldFS{fs, func() {
			if held.Load() {
				<-released
			}
		}}
	})
	cfg := gapless.Config{}
	seam.Of(&cfg).Disk = files
	s := launch(t, cfg)
	clients, err := kubernetes.NewForConfig(s.RESTConfig())
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	maps := clients.CoreV1().ConfigMaps("default")
	web := webClient(t, s.RESTConfig())
	if code, body := ask(t, web, s.URL()+"/readyz"); code != http.StatusOK {
		t.Fatalf("before: %d %s", code, body)
	}
	held.Store(true)
	written := make(chan error, 1)
	go func() { // ends when the disk goes on
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "waits"}},
			metav1.CreateOptions{})
		written <- err
	}()
	began := time.Now()
	until(t, func() bool {
		code, body := ask(t, web, s.URL()+"/readyz")
		return code == http.StatusInternalServerError && strings.Contains(body, "[-]storage-writes failed: ") &&
			strings.Contains(body, "the disk has not answered for ")
	})
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("not ready after %v", took)
	}
	if code, body := ask(t, web, s.URL()+"/livez"); code != http.StatusOK {
		t.Errorf("livez: %d %s", code, body)
	}
	if _, body := ask(t, web, s.URL()+"/metrics"); !strings.Contains(body, "\ngapless_storage_writable 0\n") ||
		!strings.Contains(body, "\ngapless_storage_durable 1\n") {
		t.Error("the metrics say that the storage is writable")
	}
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a list meanwhile: %v", err)
	}
	held.Store(false)
	close(released)
	if err := <-written; err != nil {
		t.Errorf("the write that waited: %v", err)
	}
	until(t, func() bool { code, _ := ask(t, web, s.URL()+"/readyz"); return code == http.StatusOK })
	if _, body := ask(t, web, s.URL()+"/metrics"); !strings.Contains(body, "\ngapless_storage_writable 1\n") {
		t.Error("the metrics say that the storage is not writable")
	}
}

func webClient(t *testing.T, cfg *rest.Config) *http.Client {
	t.Helper()
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	return web
}

// ask returns the answer to a GET.
func ask(t *testing.T, web *http.Client, url string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatalf("do web: %v", err)
	}
	all, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatalf("close body: %v", err)
	}
	return resp.StatusCode, string(all)
}

// until waits for up to a minute.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("it does not come true")
		}
	}
}

// heldFS makes each sync of a file wait for what wait waits for.
type heldFS struct {
	disk.FS
	wait func()
}

func (h heldFS) Create(name string) (disk.File, error) {
	f, err := h.FS.Create(name)
	return heldFile{f, h.wait}, err
}

func (h heldFS) Open(name string) (disk.File, int64, error) {
	f, size, err := h.FS.Open(name)
	return heldFile{f, h.wait}, size, err
}

type heldFile struct {
	disk.File
	wait func()
}

func (h heldFile) Sync() error {
	h.wait()
	return h.File.Sync()
}
