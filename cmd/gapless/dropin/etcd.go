package dropin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// etcdVersion is the version of etcd that Kubernetes 1.37 is released with.
const etcdVersion = "3.6.6"

// etcd says that it is well, and where its directory is, until ctx ends. It keeps nothing: the
// kube-apiserver beside it writes to its directory, so that the objects are there for the
// next one with this etcd, and end with the directory.
func (p Program) etcd(ctx context.Context) (int, error) {
	settings, err := p.read(ctx, etcdTable())
	if errors.Is(err, errAsked) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	at, listen, err := newPlace(settings)
	if err != nil {
		return 0, err
	}
	removeLeft()
	defer hold(at.DataDir)()
	web := &http.Server{Handler: at.handler(), ReadHeaderTimeout: 10 * time.Second}
	g, ctx := errgroup.WithContext(ctx)
	for _, address := range listen {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return 0, errors.Join(fmt.Errorf("--listen-client-urls: %w", err), web.Close())
		}
		g.Go(func() error { // until web is closed
			if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", address, err)
			}
			return nil
		})
	}
	p.logger().LogAttrs(ctx, slog.LevelInfo, "serving", slog.Any("addresses", listen), slog.String("data_dir", at.DataDir))
	g.Go(func() error {
		<-ctx.Done()
		return web.Close() // nothing is lost
	})
	return 0, g.Wait()
}

// place is what etcd tells kube-apiserver.
type place struct {
	// DataDir is the absolute path of etcd's directory.
	DataDir string `json:"dataDir"`
	// NoFsync: what is written need not survive a failure of the machine.
	NoFsync bool `json:"unsafeNoFsync"`
}

// newPlace reads the settings of etcd, and the addresses to listen on.
func newPlace(settings []setting) (at place, listen []string, err error) {
	urls, name := "http://localhost:2379", "default"
	for _, s := range settings {
		switch s.name {
		case "data-dir":
			at.DataDir = s.value
		case "listen-client-urls":
			urls = s.value
		case "name":
			name = s.value
		case "unsafe-no-fsync":
			at.NoFsync = s.value == "true"
		}
	}
	for _, text := range list(urls) {
		u, err := url.Parse(text)
		if err != nil {
			return at, nil, fmt.Errorf("--listen-client-urls: %w", err)
		}
		if u.Scheme != "http" || u.Host == "" {
			return at, nil, fmt.Errorf(
				"--listen-client-urls=%s is refused: want a URL like http://127.0.0.1:2379; it speaks HTTP without TLS", text)
		}
		listen = append(listen, u.Host)
	}
	if len(listen) == 0 {
		return at, nil, errors.New("--listen-client-urls has no URL: want one like http://127.0.0.1:2379")
	}
	if at.DataDir == "" {
		at.DataDir = name + ".etcd"
	}
	if at.DataDir, err = filepath.Abs(at.DataDir); err != nil {
		return at, nil, fmt.Errorf("--data-dir: %w", err)
	}
	return at, listen, nil
}

// placePath is where etcd says where its directory is.
const placePath = "/gapless/data-dir"

func (at place) handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, value any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value) // the client has left
		})
	}
	answer("/health", map[string]string{"health": "true", "reason": ""})
	answer("/version", map[string]string{"etcdserver": etcdVersion, "etcdcluster": etcdVersion, "storage": "gapless"})
	answer(placePath, at)
	for _, path := range []string{"/livez", "/readyz"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintln(w, "ok") // the client has left
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this is the etcd of gapless envtest install: it keeps nothing that etcd's clients could read",
			http.StatusNotFound)
	})
	return mux
}
