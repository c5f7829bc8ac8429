// Package seam is what the tests of this module and its program ask of a gapless.Server beyond its API: package
// gaplesstest keeps the objects of a server on a disk in memory and brings them back to an earlier moment, and
// gapless serve has flags for the servers of tests. It is not in the API, because it promises nothing to users.
//
//	cfg := gapless.Config{Memory: true}
//	*seam.Of(&cfg) = seam.Options{Disk: seam.NewDisk()}
package seam

import (
	"context"

	"github.com/gapless-io/gapless/internal/baseline"
	"github.com/gapless-io/gapless/kube"
)

// Options are what a gapless.Config has beyond its fields.
type Options struct {
	// Disk, in memory mode, is where the objects and their history are kept, so that another
	// server can start with them. Nil means that they end with the server.
	Disk *Disk
	// UnsafeNoFsync does not wait until what is written is on disk: it survives the
	// end of the process, but a failure of the machine may damage the data directory.
	UnsafeNoFsync bool
	// StopAtOnce closes connections when the server stops as soon as no request is in progress.
	// Otherwise clients have a second in which what they have sent meanwhile over
	// HTTP/2 is answered.
	StopAtOnce bool
}

// Hidden is what a gapless.Config embeds.
type Hidden struct{ options Options }

func (h *Hidden) hidden() *Options { return &h.options }

// Of returns the options of a *gapless.Config.
func Of(cfg interface{ hidden() *Options }) *Options { return cfg.hidden() }

// Calls are what tests do to a server besides its methods. They block until the server is ready.
type Calls interface {
	// Baseline returns what the server holds now.
	Baseline(ctx context.Context) (*baseline.Baseline, error)
	// Restore brings the server back to a baseline, of its own or of an earlier server with the same
	// data: it deletes the other objects without waiting for their finalizers, and writes those
	// that were changed or deleted. Watches see this. It returns when every reader does. The history
	// stays, and resource versions go on.
	Restore(ctx context.Context, b *baseline.Baseline) error
	// CompactEvery removes all history, as etcd's compaction does: also of a resource that was not
	// written since, older resource versions are expired. It returns the resource version up to which
	// history is gone.
	CompactEvery(ctx context.Context) (kube.ResourceVersion, error)
}

// Called is what a gapless.Server embeds.
type Called struct{ calls Calls }

// NewCalled returns what answers with calls.
func NewCalled(calls Calls) Called { return Called{calls: calls} }

func (c *Called) called() Calls { return c.calls }

// To returns the calls to a *gapless.Server.
func To(server interface{ called() Calls }) Calls { return server.called() }
