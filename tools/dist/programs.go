package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// program is gapless of a platform.
type program struct {
	system, arch string
	file         string
}

// release is what the files are made of.
type release struct {
	root     string // of the repository
	work     string // a directory for files that are not of the release
	version  string // with its v, of all programs
	commit   string
	time     time.Time // of the commit; all files have it
	programs []program
	own      string // the program of this machine
	manual   []file // man pages, relative to a directory like man1
	complete []file // completions, by the names of their shells
}

// repository finds the root of the checkout that this program is in. The go command knows no version in a worktree of
// git: of that a clone is made below work, of its last commit.
func repository(ctx context.Context, work string) (string, error) {
	out, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	root := strings.TrimSpace(string(out))
	if info, err := os.Stat(filepath.Join(root, ".git")); err != nil || info.IsDir() {
		return root, err
	}
	clone := filepath.Join(work, "clone")
	_, err = output(ctx, root, "git", "clone", "-q", root, clone)
	return clone, err
}

// output runs a command in a directory and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, problems.Bytes())
	}
	return out.Bytes(), nil
}

// build builds the programs of platforms, or of all, and that of this machine.
func build(ctx context.Context, root, work string, platforms []string) (*release, error) {
	r := &release{root: root, work: work}
	stamp, err := output(ctx, root, "git", "log", "-1", "--format=%ct %H")
	if err != nil {
		return nil, err
	}
	seconds, commit, _ := strings.Cut(strings.TrimSpace(string(stamp)), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the time of the commit: %w", err)
	}
	r.commit, r.time = commit, time.Unix(unix, 0).UTC()
	dir := filepath.Join(work, "programs")
	if _, err := output(ctx, root, "tools/programs", append([]string{dir}, platforms...)...); err != nil {
		return nil, err
	}
	made, err := filepath.Glob(filepath.Join(dir, "*", "gapless*"))
	if err != nil {
		return nil, err
	}
	for _, name := range made {
		system, arch, _ := strings.Cut(filepath.Base(filepath.Dir(name)), "-")
		r.programs = append(r.programs, program{system: system, arch: arch, file: name})
		if system == runtime.GOOS && arch == runtime.GOARCH {
			r.own = name
		}
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if r.version != "" && r.version != info.Main.Version {
			return nil, fmt.Errorf("the programs have the versions %s and %s: something was changed meanwhile",
				r.version, info.Main.Version)
		}
		r.version = info.Main.Version
	}
	if r.own == "" {
		own := runtime.GOOS + "/" + runtime.GOARCH
		if _, err := output(ctx, root, "tools/programs", filepath.Join(work, "own"), own); err != nil {
			return nil, err
		}
		r.own = filepath.Join(work, "own", strings.ReplaceAll(own, "/", "-"), "gapless")
		if runtime.GOOS == "windows" {
			r.own += ".exe"
		}
	}
	if !strings.HasPrefix(r.version, "v") {
		return nil, fmt.Errorf("the version of the programs is %q: is this a checkout with its history?", r.version)
	}
	return r, nil
}

// name is how a program is called on its platform.
func (p program) name() string { return filepath.Base(p.file) }

// read returns a file of the repository.
func (r *release) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(r.root, filepath.FromSlash(name)))
}
