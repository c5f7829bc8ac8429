// Command dist makes all files of a release: tools/dist -out DIR [-version vX.Y.Z] [-platforms OS/ARCH,…].
//
// They are archives of the program with its manual and completions, packages for Debian and for systems with RPM, an
// image for containers, charts for Helm, a manifest for krew, a bill of materials of each program, and the sums of all
// of these. Nothing is signed, and nothing is sent anywhere. The same commit gives the same bytes.
//
// goreleaser is not used: its module needs a newer Go than this repository, and the clients of all clouds that it can
// send releases to. What makes packages there, nfpm, does so here.
//
// programs.go builds, archive.go has the archives, and what is in any of these files, manual.go the manual, packages.go
// the packages, image.go the image, charts.go, krew.go and bill.go the rest.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

// run makes the files, and prints their sums to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	dir := flags.String("out", "dist", "directory for the files; former ones in it are removed")
	version := flags.String("version",
		"", "what the programs must say: the tag of the commit, with nothing changed (default any)")
	platforms := flags.String("platforms", "", "comma-separated, like linux/amd64,darwin/arm64 (default those of a release)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if len(flags.Args()) > 0 {
		return fmt.Errorf("there are arguments that are no flags: %q", flags.Args())
	}
	work, err := os.MkdirTemp("", "gapless-dist-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // it is only temporary
	root, err := repository(ctx, work)
	if err != nil {
		return err
	}
	r, err := build(ctx, root, work, strings.FieldsFunc(*platforms, func(r rune) bool { return r == ',' }))
	if err != nil {
		return err
	}
	if *version != "" && *version != r.version {
		return fmt.Errorf("the version of the programs is %s, not %s: is the tag checked out, and nothing changed?",
			r.version, *version)
	}
	if err := r.write(ctx, *dir); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(*dir, sumsName))
	if err != nil {
		return err
	}
	_, err = out.Write(sums)
	return err
}

// write makes all files of a release in a directory.
func (r *release) write(ctx context.Context, dir string) error {
	if err := prepare(dir); err != nil {
		return err
	}
	if err := r.makeManual(ctx); err != nil {
		return fmt.Errorf("make the manual: %w", err)
	}
	for _, make := range []struct {
		what string
		do   func(context.Context, string) error
	}{
		{"archives", r.archives},
		{"packages", r.packages},
		{"image", r.image},
		{"charts", r.charts},
		{"bills of materials", r.bills},
		{"krew's manifest", r.krew},
		{"sums", sums},
	} {
		if err := make.do(ctx, dir); err != nil {
			return fmt.Errorf("make the %s: %w", make.what, err)
		}
	}
	return nil
}

// sumsName is the file with the SHA-256 of all others.
const sumsName = "SHA256SUMS"

// prepare makes a directory that has nothing but a former release's files, and removes these.
func prepare(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}
	isSums := func(e os.DirEntry) bool { return e.Name() == sumsName }
	if len(entries) > 0 && !slices.ContainsFunc(entries, isSums) {
		return fmt.Errorf("%s has files, but no %s: it is no directory of a former release; name another one", dir, sumsName)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// sums writes the sums of all files, as sha256sum does.
func sums(_ context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(&text, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsName), []byte(text.String()), 0o644)
}

// sumOf returns the SHA-256 of a file in hexadecimal.
func sumOf(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it is only read
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
