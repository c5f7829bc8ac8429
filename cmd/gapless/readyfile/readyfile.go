// Package readyfile writes the file by which a server reports that it is ready.
//
// [Ready] is the content of the file.
package readyfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gapless-io/gapless/internal/durable"
)

// Ready is the content of the file, as JSON.
type Ready struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// CA is the file with the CA of a relay's certificate.
	CA    string `json:"ca,omitempty"`
	PID   int    `json:"pid"`
	Debug string `json:"debug,omitempty"`
	// Dashboard is the URL of the dashboard.
	Dashboard string `json:"dashboard,omitempty"`
}

// Check checks that the file can be written, before anything is created. It
// accepts a path in the data directory, which the start creates.
func Check(path, dataDir string) error {
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

// Write writes the file atomically, with the number of this process.
func Write(path string, r Ready) error {
	r.PID = os.Getpid()
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(body, '\n'))
}
