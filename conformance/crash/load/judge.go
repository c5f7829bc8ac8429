package load

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gapless-io/gapless/conformance/crash/linear"
)

// judgeLimit is how long one history may take to check.
const judgeLimit = 20 * time.Second

// Judged counts what was checked for linearizability.
type Judged struct {
	Histories  int
	Operations int // in them
	Undecided  int // histories that took too long to check
	// Saved are the files of histories that are not linearizable, or undecided.
	Saved []string
}

// Judge ends an epoch of the Register, while the load is held, and checks its history. It saves the history in a
// directory if it is not linearizable or took too long to check.
func (l *Load) Judge(ctx context.Context, sum *Judged, dir, note string) error {
	h := linear.History{Seed: l.cfg.Seed, Ops: l.Register.End(ctx), Note: note}
	sum.Histories++
	sum.Operations += len(h.Ops)
	file := filepath.Join(dir, fmt.Sprintf("history-%d.json", sum.Histories))
	switch h.Check(judgeLimit).Result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		sum.Undecided++
	case porcupine.Illegal:
		l.record.Violation("a history of %d operations is not linearizable; check it again, in conformance/crash, with: "+
			"go run ./cmd/crash -replay %s", len(h.Ops), file)
	}
	sum.Saved = append(sum.Saved, file)
	return h.Save(file)
}
