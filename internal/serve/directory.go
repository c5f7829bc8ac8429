package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/store/revlog/build"
)

// MirrorDir is the directory of the history in the data directory of a relay.
const MirrorDir = "mirror"

// ReplicaDir is the directory of the history in the data directory of a server whose objects are in etcd.
const ReplicaDir = "replica"

// ReplicaDirOf is ReplicaDir for what is in an etcd cluster of its own: the name of one of its resources tells such
// clusters apart.
func ReplicaDirOf(resource string) string { return ReplicaDir + "-" + resource }

// CheckServerDir returns an error for a directory that is not empty and has no data of
// gapless, or that of a server whose objects are elsewhere: in etcd or not.
func CheckServerDir(dir string, inEtcd bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	switch {
	case slices.Contains(names, MirrorDir):
		return fmt.Errorf("%s is the data directory of a relay; use another one", dir)
	case slices.Contains(names, build.Unfinished):
		return fmt.Errorf("%s has only a part of its objects, because a restore or a migration did not finish: "+
			"run gapless restore again, or gapless migrate, or remove %s", dir, filepath.Join(dir, build.Unfinished))
	case inEtcd && slices.Contains(names, "log"):
		return fmt.Errorf("%s has the objects of a server without etcd, which --etcd-servers would not serve; use another "+
			"directory", dir)
	case !inEtcd && slices.Contains(names, ReplicaDir):
		return fmt.Errorf("%s is the data directory of a server whose objects are in etcd: name that with --etcd-servers, or "+
			"use another directory", dir)
	case len(names) == 0 || slices.Contains(names, "log") || slices.Contains(names, ReplicaDir) || slices.Contains(names, "pki"):
		return nil
	}
	return fmt.Errorf("%s is not empty and not a gapless data directory (it contains %s); "+
		"use an empty directory or one that does not exist yet", dir, strings.Join(names[:min(len(names), 3)], ", "))
}

// CheckRelayDir returns an error for a directory that is not empty and has no data of a relay.
func CheckRelayDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == MirrorDir }) {
		return fmt.Errorf("%s is not empty and not the data directory of a relay (it contains %s); "+
			"use an empty directory or one that does not exist yet", dir, entries[0].Name())
	}
	return nil
}

// The permissions of others and of the group, as bits of a file's mode.
const (
	othersRead, othersWrite = 0o004, 0o002
	groupRead, groupWrite   = 0o040, 0o020
)

// CheckPermissions returns an error if others may write the data directory, or read or
// write private keys. It only logs a warning if the group may: Kubernetes gives volumes
// to the group of the pod (fsGroup).
func CheckPermissions(ctx context.Context, dir string, logger *slog.Logger) error {
	if runtime.GOOS == "windows" {
		return nil // file modes do not have the permissions
	}
	keys, err := filepath.Glob(filepath.Join(dir, "pki", "*.key"))
	if err != nil {
		return fmt.Errorf("look for keys: %w", err)
	}
	for _, path := range append(keys, filepath.Join(dir, "kubeconfig")) {
		if err := CheckPrivate(ctx, path, logger); err != nil {
			return err
		}
	}
	apart, err := filepath.Glob(filepath.Join(dir, ReplicaDirOf("*")))
	if err != nil {
		return fmt.Errorf("look for directories of history: %w", err)
	}
	for _, path := range append(apart,
		dir, filepath.Join(dir, "pki"), filepath.Join(dir, "log"), filepath.Join(dir, ReplicaDir)) {
		if err := checkMode(ctx, path, othersWrite|groupWrite, logger); err != nil {
			return err
		}
	}
	return nil
}

// CheckPrivate is CheckPermissions for one file with keys.
func CheckPrivate(ctx context.Context, path string, logger *slog.Logger) error {
	return checkMode(ctx, path, othersRead|othersWrite|groupRead|groupWrite, logger)
}

// checkMode returns an error if the mode of a file or directory has one of the unwanted
// bits for others, and logs a warning for those of the group.
func checkMode(ctx context.Context, path string, unwanted fs.FileMode, logger *slog.Logger) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check the permissions of the data directory: %w", err)
	}
	if private := unwanted&othersRead != 0; private && info.IsDir() {
		return fmt.Errorf("%s is a directory, want a file: move it away", path)
	}
	mode := info.Mode().Perm()
	if mode&unwanted&(othersRead|othersWrite) != 0 {
		may, fix := "read", "go="
		if mode&unwanted&othersWrite != 0 {
			may = "write"
		}
		if info.IsDir() {
			fix = "o-w"
		}
		return fmt.Errorf("%s has mode %04o, so every user of this machine may %s it: run chmod %s %s",
			path, mode, may, fix, path)
	}
	if mode&unwanted != 0 {
		logger.WarnContext(ctx, "the group can read or write a private file or directory",
			slog.String("path", path), slog.String("mode", fmt.Sprintf("%04o", mode)))
	}
	return nil
}

// Missing returns the directories that a start on dir creates, the deepest first.
func Missing(dir string) ([]string, error) {
	missing, err := durable.Missing(dir)
	if err != nil {
		return nil, fmt.Errorf("check the data directory: %w", err)
	}
	for _, name := range []string{"log", "pki", ReplicaDir} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			missing = append([]string{path}, missing...)
		}
	}
	return missing, nil
}

// RemoveEmpty removes the directories that a failed start created, if they are empty.
func RemoveEmpty(dirs []string) {
	for _, dir := range dirs {
		_ = os.Remove(dir) // it is not empty, or does not exist
	}
}
