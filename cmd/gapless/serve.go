package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gapless-io/gapless"
)

// serveFlags are the flags of `gapless serve`.
type serveFlags struct {
	dataDir      string
	memory       bool
	listen       string
	history      time.Duration
	historyBytes string
	base         int64
	strict       bool
	readyFile    string
	debugListen  string
	logFormat    string
	logLevel     string
}

func newServe(io streams) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a Kubernetes-compatible API server",
		Long: `Run a Kubernetes-compatible API server until SIGINT or SIGTERM, which drain it:
watches get a last bookmark, requests under way finish. A second signal ends it
at once. On first start it makes its own certificates and a kubeconfig.`,
		Example: `  # everything in ./gapless-data, on port 6443
  gapless serve

  # for a test: nothing on disk, any free port, a file that says where
  gapless serve --memory --listen 127.0.0.1:0 --ready-file ready.json

  # a week of history in at most 10 GiB
  gapless serve --history 168h --history-bytes 10Gi`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), f, cmd.Flags().Changed("data-dir"), io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dataDir, "data-dir", "gapless-data", "directory of the data, the certificates and the kubeconfig")
	flags.BoolVar(&f.memory, "memory", false, "keep all objects in memory; without --data-dir nothing is left behind")
	flags.StringVar(&f.listen, "listen", gapless.DefaultListen, "address to listen on; port 0 picks a free one")
	flags.DurationVar(&f.history, "history", gapless.DefaultHistory, "how long old versions are kept; 0 keeps them for ever")
	flags.StringVar(&f.historyBytes, "history-bytes", "", "bytes of old versions kept, like 512Mi; 0 is no limit (default 1Gi, in memory 256Mi)")
	flags.Int64Var(&f.base, "resource-version-base", 0, "resource version before the first write, for an empty data directory (default 1000000000)")
	flags.BoolVar(&f.strict, "strict-future-watch", false, "end a watch after a resource version of the future with an error after 3s, instead of waiting in silence")
	flags.StringVar(&f.readyFile, "ready-file", "", `file that gets {"url","kubeconfig","pid","debug"} once the server serves`)
	flags.StringVar(&f.debugListen, "debug-listen", "", "loopback address that serves /debug/pprof/ without credentials (default none)")
	flags.StringVar(&f.logFormat, "log-format", "text", "form of the log: text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "least level of the log: debug, info, warn or error")
	return cmd
}

// config turns flags into a configuration. Errors are those of usage.
func (f serveFlags) config(dirGiven bool, io streams) (gapless.Config, error) {
	logger, err := newLogger(io, f.logFormat, f.logLevel)
	if err != nil {
		return gapless.Config{}, err
	}
	cfg := gapless.Config{
		DataDir: f.dataDir, Memory: f.memory, Listen: f.listen, History: f.history,
		ResourceVersionBase: f.base, StrictFutureWatch: f.strict, Logger: logger,
	}
	if f.memory && !dirGiven {
		cfg.DataDir = ""
	}
	switch {
	case f.history < 0:
		return cfg, fmt.Errorf("--history %v: it cannot be negative; 0 keeps history for ever", f.history)
	case f.history == 0:
		cfg.History = gapless.Forever
	}
	if f.historyBytes != "" {
		bytes, err := resource.ParseQuantity(f.historyBytes)
		if err != nil || bytes.Sign() < 0 {
			return cfg, fmt.Errorf("--history-bytes %q: want a number of bytes like 1073741824, 512Mi or 10Gi", f.historyBytes)
		}
		if cfg.HistoryBytes = bytes.Value(); cfg.HistoryBytes == 0 {
			cfg.HistoryBytes = gapless.Forever
		}
	}
	if f.base < 0 {
		return cfg, fmt.Errorf("--resource-version-base %d: it cannot be negative", f.base)
	}
	return cfg, nil
}

func newLogger(io streams, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(io.err, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(io.err, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want text or json", format)
}

func serve(ctx context.Context, f serveFlags, dirGiven bool, io streams) error {
	cfg, err := f.config(dirGiven, io)
	if err != nil {
		return &usageError{err}
	}
	s, err := gapless.New(cfg)
	if err != nil {
		return &usageError{err}
	}
	debug, err := startDebug(ctx, f.debugListen)
	if err != nil {
		return err
	}
	defer debug.stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	// serve owns both: they end with ctx, and serve waits for the server.
	go func() { done <- s.Run(ctx) }()
	go giveBackMemory(ctx)
	select {
	case err := <-done:
		return err
	case <-s.Ready():
	}
	announce(io, s, f, cfg)
	if f.readyFile != "" {
		if err := writeReady(f.readyFile, s, debug.address()); err != nil {
			cancel(err)
			return errors.Join(fmt.Errorf("write --ready-file: %w", err), <-done)
		}
		defer func() { _ = os.Remove(f.readyFile) }() // somebody else may have removed it
	}
	return <-done
}

// announce prints what a newcomer needs next.
func announce(io streams, s *gapless.Server, f serveFlags, cfg gapless.Config) {
	where := "memory (nothing is kept)"
	if !cfg.Memory {
		where = f.dataDir
		if abs, err := filepath.Abs(where); err == nil {
			where = abs
		}
	}
	age, bytes := "for ever", "any size"
	if f.history > 0 {
		age = shortDuration(f.history)
	}
	switch {
	case cfg.HistoryBytes < 0:
	case f.historyBytes != "":
		bytes = f.historyBytes + "B"
	case cfg.Memory:
		bytes = resource.NewQuantity(gapless.DefaultMemoryHistoryBytes, resource.BinarySI).String() + "B"
	default:
		bytes = resource.NewQuantity(gapless.DefaultHistoryBytes, resource.BinarySI).String() + "B"
	}
	io.printf(`gapless serves the Kubernetes API at %s
  data     %s
  history  %s, at most %s

  export KUBECONFIG=%s
`, s.URL(), where, age, bytes, s.Kubeconfig())
}

// shortDuration leaves out the zeros at the end: 24h instead of 24h0m0s.
func shortDuration(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "0s")
	if trimmed := strings.TrimSuffix(text, "0m"); trimmed != text && strings.HasSuffix(trimmed, "h") {
		text = trimmed
	}
	if text == "" || strings.HasSuffix(text, ".") || text[len(text)-1] <= '9' {
		return d.String()
	}
	return text
}

// writeReady writes the file at once, so that a reader never sees half of it.
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
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(body, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
