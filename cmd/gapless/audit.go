package main

import (
	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

// auditFlags adds the flags of the audit log, with kube-apiserver's names, defaults and
// meanings of 0.
func auditFlags(flags *pflag.FlagSet, a *gapless.Audit) {
	flags.StringVar(&a.PolicyFile, "audit-policy-file", "",
		"file with the audit policy (audit.k8s.io/v1): which requests are recorded, and how much of them")
	flags.StringVar(&a.LogPath, "audit-log-path", "", "file to append audit events to; '-' is standard output")
	flags.IntVar(&a.LogMaxSize, "audit-log-maxsize", 100, "size in MB at which the audit log is rotated; 0 means never")
	flags.IntVar(&a.LogMaxBackups, "audit-log-maxbackup", 100, "how many rotated audit logs are kept; 0 means all")
	flags.IntVar(&a.LogMaxAge, "audit-log-maxage", 366, "for how many days rotated audit logs are kept; 0 means forever")
	flags.BoolVar(&a.LogCompress, "audit-log-compress", false, "compress rotated audit logs")
	flags.StringVar(&a.LogFormat, "audit-log-format", "json", "format of audit events: json, or legacy for a line of text")
	flags.StringVar(&a.LogMode, "audit-log-mode", "blocking",
		"when events are written: blocking is before the request goes on; blocking-strict also refuses requests whose event "+
			"cannot be written; batch is later")
	flags.IntVar(&a.LogBatchBufferSize, "audit-log-batch-buffer-size", 10_000,
		"how many events wait for the disk in the mode batch before more are lost; at most 64 MiB of them")
	flags.BoolVar(&a.LogTruncate, "audit-log-truncate-enabled", false, "remove the bodies of audit events that are too large")
	flags.Int64Var(&a.LogTruncateMaxEventSize, "audit-log-truncate-max-event-size", 100<<10,
		"size in bytes from which an audit event is too large")
}

// forever turns the zeros of flags, which mean no limit, into those of the configuration.
func forever(a gapless.Audit) gapless.Audit {
	for _, v := range []*int{&a.LogMaxSize, &a.LogMaxBackups, &a.LogMaxAge} {
		if *v == 0 {
			*v = gapless.Forever
		}
	}
	return a
}
