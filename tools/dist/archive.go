package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"
)

// file is what is in an archive, a package or an image.
type file struct {
	name string // with /
	mode os.FileMode
	text []byte
	from string // a file that has the text instead
	link string // what a symbolic link points to
	dir  bool
	own  int // uid and gid
}

func (f file) open() (io.ReadCloser, int64, error) {
	if f.from == "" {
		return io.NopCloser(bytes.NewReader(f.text)), int64(len(f.text)), nil
	}
	opened, err := os.Open(f.from)
	if err != nil {
		return nil, 0, err
	}
	info, err := opened.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, opened.Close())
	}
	return opened, info.Size(), nil
}

// archives writes one archive for each platform.
func (r *release) archives(_ context.Context, dir string) error {
	for _, p := range r.programs {
		files := []file{{name: p.name(), mode: 0o755, from: p.file}}
		for _, name := range []string{"LICENSE", "NOTICE", "README.md"} {
			text, err := r.read(name)
			if err != nil {
				return err
			}
			files = append(files, file{name: name, mode: 0o644, text: text})
		}
		for _, page := range r.manual {
			files = append(files, file{name: path.Join("man/man1", page.name), mode: 0o644, text: page.text})
		}
		for _, shell := range r.complete {
			files = append(files, file{name: path.Join("completions", "gapless."+shell.name), mode: 0o644, text: shell.text})
		}
		write := writeTarGzip
		if p.system == "windows" {
			write = writeZip
		}
		if err := toFile(filepath.Join(dir, r.archiveName(p)), func(to io.Writer) error {
			return write(to, files, r.time)
		}); err != nil {
			return err
		}
	}
	return nil
}

// archiveName is the name of the archive of a program.
func (r *release) archiveName(p program) string {
	end := "tar.gz"
	if p.system == "windows" {
		end = "zip"
	}
	return fmt.Sprintf("gapless_%s_%s_%s.%s", r.version, p.system, p.arch, end)
}

// toFile makes a file of what write writes.
func toFile(name string, write func(io.Writer) error) error {
	to, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(to), to.Close())
}

func writeTarGzip(to io.Writer, files []file, at time.Time) error {
	compressed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(compressed, files, at), compressed.Close())
}

// writeTar writes files with one time, in the order in which they are given.
func writeTar(to io.Writer, files []file, at time.Time) error {
	out := tar.NewWriter(to)
	for _, f := range files {
		from, size, err := f.open()
		if err != nil {
			return err
		}
		header := &tar.Header{
			Name: f.name, Mode: int64(f.mode), Size: size, ModTime: at, Typeflag: tar.TypeReg, Uid: f.own, Gid: f.own,
		}
		switch {
		case f.dir:
			header.Typeflag, header.Name = tar.TypeDir, f.name+"/"
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		}
		err = out.WriteHeader(header)
		if err == nil {
			_, err = io.Copy(out, from)
		}
		if err = errors.Join(err, from.Close()); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return out.Close()
}

func writeZip(to io.Writer, files []file, at time.Time) error {
	out := zip.NewWriter(to)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode)
		w, err := out.CreateHeader(header)
		if err != nil {
			return err
		}
		from, _, err := f.open()
		if err != nil {
			return err
		}
		_, err = io.Copy(w, from)
		if err = errors.Join(err, from.Close()); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return out.Close()
}
