package gapless

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/tracing"
)

// Audit is the audit log, as kube-apiserver's (docs/audit.md). Without PolicyFile there is
// none. 0 and "" mean the default.
type Audit struct {
	// PolicyFile has a Policy of audit.k8s.io/v1, which says which requests are recorded and
	// how much of them. LogPath is the file that events are appended to; "-" is standard
	// output. Both are needed.
	PolicyFile string
	LogPath    string
	// LogMaxSize is the size in MB at which the file is rotated (default 100), LogMaxBackups
	// how many rotated files are kept (100), LogMaxAge for how many days (366); Forever, or
	// any negative value: no limit. LogCompress compresses rotated files.
	LogMaxSize    int
	LogMaxBackups int
	LogMaxAge     int
	LogCompress   bool
	// LogFormat is "json" (default) or "legacy"; LogMode "blocking" (default),
	// "blocking-strict" or "batch". In the last mode up to LogBatchBufferSize events wait
	// (10 000), of at most 64 MiB.
	LogFormat          string
	LogMode            string
	LogBatchBufferSize int
	// LogTruncate removes the bodies of events over LogTruncateMaxEventSize bytes (100 KiB).
	LogTruncate             bool
	LogTruncateMaxEventSize int64
}

// options returns the options of the log, and whether there is one.
func (a Audit) options(c Config) (o audit.Options, wanted bool, err error) {
	switch {
	case a.PolicyFile == "" && a.LogPath == "":
		return o, false, nil
	case a.PolicyFile == "":
		return o, false, errors.New(
			"an audit log needs a policy, or nothing would be recorded: set PolicyFile (--audit-policy-file)")
	case a.LogPath == "":
		return o, false, errors.New(
			"an audit policy needs a log, or nothing would be recorded: set LogPath (--audit-log-path), - for standard output")
	}
	o, err = audit.Options{
		Path: a.LogPath, Stdout: os.Stdout, MaxSizeMB: a.LogMaxSize, MaxBackups: a.LogMaxBackups, MaxAgeDays: a.LogMaxAge,
		Compress: a.LogCompress, Format: a.LogFormat, Mode: a.LogMode, BatchBuffer: a.LogBatchBufferSize,
		Truncate: a.LogTruncate, MaxEventBytes: a.LogTruncateMaxEventSize, Logger: c.Logger,
	}.WithDefaults()
	return o, true, err
}

// loadAuditPolicy reads the policy, before anything is opened.
func (s *Server) loadAuditPolicy() (err error) {
	if s.cfg.Audit.PolicyFile != "" {
		s.auditPolicy, err = audit.LoadPolicy(s.cfg.Audit.PolicyFile)
	}
	return err
}

// openAudit opens the audit log; nil if there is none.
func (s *Server) openAudit() (*audit.Log, error) {
	o, wanted, err := s.cfg.Audit.options(s.cfg)
	if !wanted || err != nil {
		return nil, err
	}
	return audit.Open(s.auditPolicy, o)
}

// runAudit runs the audit log in a group until ctx ends, and closes it: requests have ended
// before.
func runAudit(ctx context.Context, g *errgroup.Group, log *audit.Log) {
	if log != nil {
		g.Go(func() error { return errors.Join(log.Run(ctx), log.Close()) })
	}
}

// readTracing reads Config.TracingConfigFile, before anything is created.
func (s *Server) readTracing() (err error) {
	s.traces, err = tracing.Read(s.cfg.TracingConfigFile)
	return err
}
