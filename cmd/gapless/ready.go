package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/durable"
)

// checkReadyFile checks that the file can be written, before anything is created. It
// accepts a path in the data directory, which the start creates.
func checkReadyFile(path, dataDir string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("--ready-file %s is a directory: name a file", path)
	}
	dir := filepath.Dir(path)
	probe, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if errors.Is(err, fs.ErrNotExist) && dataDir != "" && isWithin(dataDir, dir) {
		return nil
	}
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return fmt.Errorf("write --ready-file: %w", err)
	}
	return nil
}

// isWithin reports whether path is dir or below it.
func isWithin(path, dir string) bool {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false
	}
	rest, err := filepath.Rel(dir, absolute)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

// writeReady writes the file atomically.
func writeReady(path string, s *gapless.Server, debug string) error {
	body, err := json.Marshal(struct {
		URL        string `json:"url"`
		Kubeconfig string `json:"kubeconfig"`
		PID        int    `json:"pid"`
		Debug      string `json:"debug,omitempty"`
	}{s.URL(), s.Kubeconfig(), os.Getpid(), debug})
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(body, '\n'))
}
