package main

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// openImage returns the image of this machine's platform.
func openImage(t *testing.T) (v1.Image, *v1.ConfigFile) {
	t.Helper()
	file, err := os.Open(one(t, "gapless_*_image.tar"))
	if err != nil {
		t.Fatalf("open a file: %v", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	dir := t.TempDir()
	unpack(t, file, dir)
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatalf("read the layout: %v", err)
	}
	list, err := top.IndexManifest()
	if err != nil || len(list.Manifests) != 1 || list.Manifests[0].Annotations["org.opencontainers.image.ref.name"] == "" {
		t.Fatalf("the layout names %+v, %v", list, err)
	}
	index, err := top.ImageIndex(list.Manifests[0].Digest)
	if err == nil {
		err = validate.Index(index)
	}
	if err != nil {
		t.Fatalf("the index: %v", err)
	}
	manifests, err := index.IndexManifest()
	if err != nil || len(manifests.Manifests) != 1 || manifests.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Fatalf("the images are %+v, %v", manifests, err)
	}
	image, err := index.Image(manifests.Manifests[0].Digest)
	if err != nil {
		t.Fatalf("open the image: %v", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatalf("read the image's configuration: %v", err)
	}
	return image, config
}

// TestTheImageRunsAsItsUserAndWritesToItsDataAlone runs the image's program in its root directory, as its user: a
// server that is ready, and leaves nothing but its data.
func TestTheImageRunsAsItsUserAndWritesToItsDataAlone(t *testing.T) {
	image, config := openImage(t)
	if config.Config.User != "65532:65532" || config.Config.WorkingDir != "/data" || config.Config.Entrypoint[0] != "/gapless" {
		t.Errorf("the image's configuration is %+v", config.Config)
	}
	root := t.TempDir()
	from := mutate.Extract(image)
	files := unpack(t, from, root)
	if err := from.Close(); err != nil {
		t.Fatalf("read the image: %v", err)
	}
	for name, h := range files {
		switch name {
		case "data":
			if h.Uid != nonRoot || h.Mode&0o777 != 0o750 {
				t.Errorf("%s is of %d, with mode %o", name, h.Uid, h.Mode)
			}
		case "tmp":
			if h.Mode != 0o1777 {
				t.Errorf("%s has mode %o", name, h.Mode)
			}
		default:
			if h.Uid != 0 || h.Gid != 0 || h.Mode&0o022 != 0 {
				t.Errorf("others than root may write to %s: it is of %d:%d, with mode %o", name, h.Uid, h.Gid, h.Mode)
			}
		}
	}
	roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if n := bytes.Count(roots, []byte("BEGIN CERTIFICATE")); err != nil || n < 100 {
		t.Errorf("%d CAs are trusted, %v", n, err)
	}
	if os.Getuid() != 0 {
		t.Skip("only root may change the root directory of a program")
	}
	if err := os.Chown(filepath.Join(root, "data"), nonRoot, nonRoot); err != nil {
		t.Fatalf("give the data to the user: %v", err)
	}
	serveIn(t, root, config.Config)
	left, err := filepath.Glob(filepath.Join(root, "data", "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "gapless-data" {
		t.Errorf("in /data there is %q, %v", left, err)
	}
	if left, err := os.ReadDir(filepath.Join(root, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("in /tmp there is %v, %v", left, err)
	}
}

// serveIn runs the server of an image until it is ready.
func serveIn(t *testing.T, root string, config v1.Config) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it waits for nothing
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatalf("close a port: %v", err)
	}
	for parent := root; parent != "/"; parent = filepath.Dir(parent) { // the user must come there
		if info, err := os.Stat(parent); err == nil && strings.HasPrefix(parent, os.TempDir()+"/") {
			if err := os.Chmod(parent, info.Mode()|0o011); err != nil {
				t.Fatalf("open a directory: %v", err)
			}
		}
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), config.Entrypoint[0], append(config.Entrypoint[1:], "serve", "--listen", address)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = config.WorkingDir, config.Env, &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nonRoot, Gid: nonRoot}}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the program: %v", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }() // ends with the program
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the server has just made its CA
	}}
	defer client.CloseIdleConnections()
	if text := ready(t, client, "https://"+address+"/readyz", gone); text != "ok" {
		t.Errorf("it answers %q", text)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatalf("stop the program: %v", err)
	}
	if err := <-gone; err != nil {
		t.Errorf("the program ended with %v:\n%s", err, &said)
	}
}
