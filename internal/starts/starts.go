// Package starts records the starts of a server in its data directory, and so tells a restart
// from a directory that was restored from a copy.
//
// A start is one opening of the data directory: it has an identity, and begins where the log
// ended then. A [History] is all starts that led to what the directory holds now. A revision
// that a client got from one of these starts is valid, unless the next start began before it:
// then the directory was restored from a copy that did not have the revision.
package starts

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/kube"
)

// maxStarts is how many starts are kept. A client that knows none of them lists again.
const maxStarts = 256

// start is one opening of a data directory, after which revisions above Since were written.
type start struct {
	ID    string `json:"id"`
	Since int64  `json:"since"`
}

// History is the starts that led to the current state, the current one last. It is
// immutable.
type History struct{ starts []start }

// file is what the data directory holds.
type file struct {
	Starts []start `json:"starts"`
}

// Open records a start of the data directory dir at its current revision; it is called
// before anything is served. With dir "" nothing is read or written. A file that cannot be
// read is treated like a missing one: clients then list again.
func Open(dir string, revision int64) (*History, error) {
	var f file
	path := filepath.Join(dir, "history.json")
	if dir != "" {
		body, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the history of the data directory: %w", err)
		}
		if json.Unmarshal(body, &f) != nil {
			f = file{}
		}
	}
	f.Starts = append(f.Starts, start{ID: rand.Text(), Since: revision})
	f.Starts = f.Starts[max(0, len(f.Starts)-maxStarts):]
	if dir != "" {
		body, err := json.Marshal(f)
		if err != nil {
			return nil, fmt.Errorf("write the history of the data directory: %w", err)
		}
		if err := durable.WriteFile(path, append(body, '\n')); err != nil {
			return nil, fmt.Errorf("write the history of the data directory: %w", err)
		}
	}
	return &History{starts: f.Starts}, nil
}

// ID is the identity of the current start.
func (h *History) ID() string { return h.starts[len(h.starts)-1].ID }

// Since is the revision of the log when the current start opened it.
func (h *History) Since() kube.ResourceVersion {
	return kube.ResourceVersion(h.starts[len(h.starts)-1].Since) //nolint:gosec // revisions are not negative
}

// Holds reports whether rv, as a client got it from the start id, is in this history.
func (h *History) Holds(id string, rv kube.ResourceVersion) bool {
	for n, s := range h.starts {
		if s.ID == id {
			return n == len(h.starts)-1 || rv <= kube.ResourceVersion(h.starts[n+1].Since) //nolint:gosec // as above
		}
	}
	return false
}
