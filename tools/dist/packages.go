package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // a format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // a format
)

// packages writes a package for Debian and one for systems with RPM, of each program for Linux.
func (r *release) packages(_ context.Context, dir string) error {
	for _, p := range r.programs {
		if p.system != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			info, err := r.packageInfo(p, format)
			if err != nil {
				return err
			}
			packager, err := nfpm.Get(format)
			if err != nil {
				return err
			}
			info = nfpm.WithDefaults(info)
			if err := nfpm.PrepareForPackager(info, format); err != nil {
				return err
			}
			name := fmt.Sprintf("gapless_%s_%s_%s.%s", r.version, p.system, p.arch, format)
			if err := toFile(filepath.Join(dir, name), func(to io.Writer) error {
				return packager.Package(info, to)
			}); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// packageInfo says what is in a package.
func (r *release) packageInfo(p program, format string) (*nfpm.Info, error) {
	contents, err := r.installed(p, format)
	if err != nil {
		return nil, err
	}
	scripts := filepath.Join(r.root, "deploy", "packages")
	return &nfpm.Info{
		Name: "gapless", Arch: p.arch, Platform: p.system, Version: r.version, Section: "admin", Priority: "optional",
		Maintainer: "The gapless authors <maintainers@gapless.invalid>", Homepage: homepage, License: "Apache-2.0",
		Description: "Kubernetes list-watch without gaps\n" +
			"An API server whose watches resume after hours and over restarts, and a relay that gives\n" +
			"the same to the clients of any other API server.",
		MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents, Umask: 0o022,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinstall"), PreRemove: filepath.Join(scripts, "preremove"),
				PostRemove: filepath.Join(scripts, "postremove"),
			},
			RPM: nfpm.RPM{BuildHost: "localhost", Group: "System Environment/Daemons"},
		},
	}, nil
}

// unitProgram is where deploy/gapless.service has the program, and packageProgram where packages have it.
const (
	unitProgram    = "/usr/local/bin/gapless"
	packageProgram = "/usr/bin/gapless"
)

// installed returns the files of a package.
func (r *release) installed(p program, format string) (files.Contents, error) {
	unit, err := r.read("deploy/gapless.service")
	if err != nil {
		return nil, err
	}
	if bytes.Count(unit, []byte(unitProgram)) != 1 {
		return nil, fmt.Errorf("deploy/gapless.service does not have %s once", unitProgram)
	}
	zsh := "/usr/share/zsh/vendor-completions/_gapless"
	if format == "rpm" {
		zsh = "/usr/share/zsh/site-functions/_gapless"
	}
	all := []file{
		{name: packageProgram, mode: 0o755, from: p.file},
		{name: "/usr/bin/kubectl-gapless", link: "gapless"},
		{name: "/usr/bin/kubectl_complete-gapless", mode: 0o755, text: []byte("#!/bin/sh\nexec gapless __complete \"$@\"\n")},
		{
			name: "/usr/lib/systemd/system/gapless.service", mode: 0o644,
			text: bytes.Replace(unit, []byte(unitProgram), []byte(packageProgram), 1),
		},
		{name: "/usr/lib/sysusers.d/gapless.conf", mode: 0o644, from: filepath.Join(r.root, "deploy/packages/sysusers.conf")},
		{name: "/etc/gapless", mode: 0o750, dir: true},
		{name: "/etc/gapless/gapless.env", mode: 0o640, from: filepath.Join(r.root, "deploy/packages/gapless.env")},
		{name: "/usr/share/doc/gapless/copyright", mode: 0o644, from: filepath.Join(r.root, "LICENSE")},
		{name: "/usr/share/doc/gapless/NOTICE", mode: 0o644, from: filepath.Join(r.root, "NOTICE")},
		{name: "/usr/share/doc/gapless/README.md", mode: 0o644, from: filepath.Join(r.root, "deploy/README.md")},
	}
	for _, page := range r.manual {
		var text bytes.Buffer
		compressed, _ := gzip.NewWriterLevel(&text, gzip.BestCompression) // that level exists
		_, _ = compressed.Write(page.text)                                // memory takes all
		if err := compressed.Close(); err != nil {
			return nil, err
		}
		all = append(all, file{name: path.Join("/usr/share/man/man1", page.name+".gz"), mode: 0o644, text: text.Bytes()})
	}
	for _, shell := range r.complete {
		at := map[string]string{
			"bash": "/usr/share/bash-completion/completions/gapless", "zsh": zsh,
			"fish": "/usr/share/fish/vendor_completions.d/gapless.fish",
		}[shell.name]
		if at != "" {
			all = append(all, file{name: at, mode: 0o644, text: shell.text})
		}
	}
	return r.contents(all, filepath.Join(r.work, "package-"+p.arch+"-"+format))
}

// contents puts what is only in memory into files below dir, from which packages are made.
func (r *release) contents(all []file, dir string) (files.Contents, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var contents files.Contents
	for _, f := range all {
		content := &files.Content{
			Destination: f.name, Source: f.from,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.time},
		}
		switch {
		case f.dir:
			content.Type = files.TypeDir
		case f.link != "":
			content.Type, content.Source = files.TypeSymlink, f.link
		case strings.HasPrefix(f.name, "/etc/"):
			content.Type = files.TypeConfigNoReplace
		}
		if f.from == "" && f.link == "" && !f.dir {
			content.Source = filepath.Join(dir, strings.ReplaceAll(f.name, "/", "_"))
			if err := os.WriteFile(content.Source, f.text, 0o644); err != nil {
				return nil, err
			}
		}
		contents = append(contents, content)
	}
	return contents, nil
}
