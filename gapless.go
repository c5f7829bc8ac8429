// Package gapless is a Kubernetes-compatible API server to be run inside a
// program: the whole of `gapless serve`.
//
// It has two nouns. A [Config] says where the server keeps its data, where it
// listens and how much history it keeps. A [Server] is made from it by [New],
// runs until the context given to [Server.Run] ends, and then drains.
package gapless

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog"
)

// Defaults of a Config.
const (
	DefaultListen  = "127.0.0.1:6443"
	DefaultHistory = 24 * time.Hour
	// DefaultHistoryBytes bounds history on disk, and in memory mode
	// DefaultMemoryHistoryBytes that in memory.
	DefaultHistoryBytes       = 1 << 30
	DefaultMemoryHistoryBytes = 256 << 20
	// MinHistoryBytes is the least budget: with less, history could be forgotten
	// faster than it is published.
	MinHistoryBytes = 8 << 20
	// Forever keeps history without a limit of age, or of bytes.
	Forever = -1
)

// Config says how a Server is to be. The zero value of every field but DataDir is
// a default.
type Config struct {
	// DataDir holds the log, the certificates and a kubeconfig. It is made if it is
	// missing, and must be empty or an earlier server's. In memory mode it may be
	// "": then certificates and kubeconfig are in a temporary directory, which is
	// removed when Run returns.
	DataDir string
	// Memory keeps all objects and their history in memory only.
	Memory bool
	// Listen is the address, "host:port"; port 0 picks a free one. The default is
	// DefaultListen, on the loopback interface.
	Listen string
	// History is how long superseded and deleted versions are kept; 0 is
	// DefaultHistory, Forever (or any negative value) no limit. HistoryBytes bounds
	// their bytes in the same way, from MinHistoryBytes on.
	History      time.Duration
	HistoryBytes int64
	// ResourceVersionBase is the resource version before the first write; 0 is
	// 1 000 000 000. It is used once, for an empty data directory.
	ResourceVersionBase int64
	// StrictFutureWatch ends a watch after a resource version that does not exist
	// yet, and does not come within 3 s, with an ERROR frame 504 Timeout. Otherwise it
	// waits in silence until its timeout, as kube-apiserver's does.
	StrictFutureWatch bool
	// Logger gets life-cycle messages, and at debug level each request; nil
	// discards them.
	Logger *slog.Logger
}

// withDefaults fills in what was left out. Errors say what is wrong with a value.
func (c Config) withDefaults() (Config, error) {
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.History = cmp.Or(c.History, DefaultHistory)
	if c.HistoryBytes == 0 {
		c.HistoryBytes = DefaultHistoryBytes
		if c.Memory {
			c.HistoryBytes = DefaultMemoryHistoryBytes
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.DataDir == "" && !c.Memory {
		return c, errors.New("no data directory was given; name one, or keep everything in memory")
	}
	if c.HistoryBytes > 0 && c.HistoryBytes < MinHistoryBytes {
		return c, fmt.Errorf("a history of %d bytes is too small: give at least %d, or 0 for the default", c.HistoryBytes, MinHistoryBytes)
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return c, fmt.Errorf("address to listen on: %w; it must look like 127.0.0.1:6443", err)
	}
	return c, nil
}

// storeOptions are those of the log.
func (c Config) storeOptions() revlog.Options {
	return revlog.Options{
		Dir: filepath.Join(c.DataDir, "log"), Memory: c.Memory, BaseRevision: c.ResourceVersionBase,
		History: max(c.History, 0), HistoryBytes: max(c.HistoryBytes, 0), Logger: c.Logger,
	}
}

// checkDataDir refuses a directory that is somebody else's: one that is not
// empty and holds none of our files.
func checkDataDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into the data directory: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) == 0 || slices.Contains(names, "log") || slices.Contains(names, "pki") {
		return nil
	}
	return fmt.Errorf("%s is not empty and not a gapless data directory (it holds %s); name an empty directory or one that does not exist yet",
		dir, strings.Join(names[:min(len(names), 3)], ", "))
}
