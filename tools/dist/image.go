package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonRoot is the uid and gid of the image's user, as in the images of distroless and in deploy.
const nonRoot = 65532

// tag is the version as the tag of an image, which has no +.
func (r *release) tag() string { return strings.ReplaceAll(r.version, "+", "-") }

// image writes the image of all programs for Linux as an archive of OCI's layout. There is nothing in it but the
// program, the CAs that Mozilla trusts, the name of the user, and the directories /data and /tmp, which alone the user
// may write to.
func (r *release) image(_ context.Context, dir string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	base, err := r.layer(baseFiles())
	if err != nil {
		return err
	}
	found := false
	for _, p := range r.programs {
		if p.system != "linux" {
			continue
		}
		found = true
		image, err := r.imageOf(p, base)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: p.system, Architecture: p.arch},
		}})
	}
	if !found {
		return nil
	}
	at := filepath.Join(r.work, "image")
	path, err := layout.Write(at, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.tag(), "io.containerd.image.name": "gapless:" + r.tag(),
	})); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(at, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(at, name)
		files = append(files, file{name: filepath.ToSlash(below), mode: 0o644, from: name})
		return err
	})
	if err != nil {
		return err
	}
	return toFile(filepath.Join(dir, "gapless_"+r.version+"_image.tar"), func(to io.Writer) error {
		return writeTar(to, files, r.time)
	})
}

// baseFiles is what all images have.
func baseFiles() []file {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a file of certificates cannot say what a constraint says
			_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // memory takes all
		}
	}
	text := func(name, text string) file { return file{name: name, mode: 0o644, text: []byte(text)} }
	return []file{
		{name: "data", mode: 0o750, dir: true, own: nonRoot},
		{name: "etc", mode: 0o755, dir: true},
		text("etc/group", "root:x:0:\nnonroot:x:65532:\n"),
		text("etc/passwd", "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/data:/sbin/nologin\n"),
		{name: "etc/ssl", mode: 0o755, dir: true},
		{name: "etc/ssl/certs", mode: 0o755, dir: true},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: roots.Bytes()},
		{name: "tmp", mode: 0o1777, dir: true},
	}
}

// layer makes a layer of files.
func (r *release) layer(files []file) (v1.Layer, error) {
	read := func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(writeTar(writer, files, r.time)) }() // it ends when it is read, or closed
		return reader, nil
	}
	return tarball.LayerFromOpener(read, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// imageOf makes the image of a program.
func (r *release) imageOf(p program, base v1.Layer) (v1.Image, error) {
	var notices []file
	for _, name := range []string{"LICENSE", "NOTICE"} {
		text, err := r.read(name)
		if err != nil {
			return nil, err
		}
		notices = append(notices, file{name: name, mode: 0o644, text: text})
	}
	own, err := r.layer(append(notices, file{name: "gapless", mode: 0o755, from: p.file}))
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.time}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: base, History: v1.History{Created: created, CreatedBy: "tools/dist", Comment: "CAs and a user"}},
		mutate.Addendum{Layer: own, History: v1.History{Created: created, CreatedBy: "tools/dist", Comment: "the program"}},
	)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.system, p.arch, created
	config.Config = v1.Config{
		Entrypoint: []string{"/gapless"}, WorkingDir: "/data", User: "65532:65532",
		Env:     []string{"PATH=/", "HOME=/data", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Volumes: map[string]struct{}{"/data": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "gapless", "org.opencontainers.image.source": homepage,
			"org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.created":  r.time.Format("2006-01-02T15:04:05Z"),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}
