package cases

import (
	"context"
	"errors"
	"fmt"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
)

// appliers is the number of clients that apply and update, each an object of its own.
const appliers = 16

// manager is the field manager of the cases that write as one.
const manager = "bench"

// applying is what writes cost that have to merge managed fields.
func applying() []Case {
	rest := []Metric{{Name: "rate", Unit: "/s"}, {Name: "p99", Unit: "ms"}, {Name: "allocs"}, {Name: "refused", Goal: AtMost(0)}}
	cost := func(goal Goal, more ...Metric) []Metric {
		return append(append([]Metric{{Name: "cpu", Unit: "us", Goal: goal}}, more...), rest...)
	}
	return []Case{
		{
			Name: "apply-unchanged", Title: "apply of an unchanged object, " + clients(appliers), Stage: Definition,
			Run: runApplyUnchanged, Metrics: cost(Ratio(1./5), Metric{Name: "events", Goal: AtMost(0)}),
		},
		{
			Name: "apply-field", Title: "apply of one changed field of 20 KB, " + clients(appliers), Stage: Definition,
			Run: runApplyField, Metrics: cost(Ratio(1. / 4)),
		},
		{
			Name: fmt.Sprintf("update-%d", appliers), Title: "update of one field, " + clients(appliers), Stage: Definition,
			Run: runUpdate, Metrics: cost(Goal{}),
		},
	}
}

// appliers applies an object of a content by each of the writers, which it returns.
func (r *Run) appliers(ctx context.Context, content load.Content) (load.Writers, error) {
	like := load.Object{Namespace: "default", Name: r.unique(), Content: content, Manager: manager}
	writers, err := load.Dial(ctx, r.Target, min(appliers, r.Scale.Hot), like)
	if err != nil {
		return nil, err
	}
	for _, w := range writers {
		if err := w.Apply(); err != nil {
			writers.Close()
			return nil, err
		}
	}
	return writers, nil
}

// runApplyUnchanged measures applies that change nothing, and counts the events of them
// that a watch sees.
func runApplyUnchanged(ctx context.Context, r *Run) (Sample, error) {
	writers, err := r.appliers(ctx, load.Structured)
	if err != nil {
		return Sample{}, err
	}
	defer writers.Close()
	crowd, err := load.Open(ctx, r.Target, 0, writers.Newest(), []load.Watch{
		{Path: writers[0].Object.Collection(), Follower: load.NewFollower(0, len(writers), 1)},
	})
	if err != nil {
		return Sample{}, err
	}
	s, err := r.timed(ctx, writers, func(_ string, w *load.Writer, _ int) error { return w.Reapply() })
	if err != nil {
		return s, errors.Join(err, crowd.Close())
	}
	// The watch has seen all that there was when it sees this.
	err = writers[0].Apply()
	behind := crowd.Drained(ctx, drainWithin, func(*load.Follower) int64 { return writers.Written() })
	if err = errors.Join(err, crowd.Close()); err != nil {
		return s, err
	}
	s.Values["events"] = float64(crowd.Events() - 1)
	verdict, _ := crowd.Judge() // an event of an unchanged object is a repetition
	return s, errors.Join(r.judge(&s, verdict, behind), r.check(&s, writers, "Apply "+manager))
}

// runApplyField measures applies of a whole object of which one field is new.
func runApplyField(ctx context.Context, r *Run) (Sample, error) {
	writers, err := r.appliers(ctx, load.Large)
	if err != nil {
		return Sample{}, err
	}
	defer writers.Close()
	s, err := r.timed(ctx, writers, func(_ string, w *load.Writer, _ int) error { return w.Apply() })
	if err != nil {
		return s, err
	}
	return s, r.check(&s, writers, "Apply "+manager)
}

// runUpdate measures updates of one field of an object that was read.
func runUpdate(ctx context.Context, r *Run) (Sample, error) {
	like := load.Object{Namespace: "default", Name: r.unique(), Content: load.Structured, Manager: manager}
	writers, err := load.NewWriters(ctx, r.Target, min(appliers, r.Scale.Hot), like)
	if err != nil {
		return Sample{}, err
	}
	defer writers.Close()
	s, err := r.timed(ctx, writers, func(_ string, w *load.Writer, _ int) error { return w.Modify() })
	if err != nil {
		return s, err
	}
	return s, r.check(&s, writers, "Update "+manager)
}

// check compares what each writer wrote last with what the server has. A difference is an
// error of gapless, or a note about upstream.
func (r *Run) check(s *Sample, writers load.Writers, managers string) error {
	errs := make([]error, len(writers))
	for i, w := range writers {
		errs[i] = w.Check(managers)
	}
	err := errors.Join(errs...)
	if err != nil && r.Name == peer.Upstream {
		s.Notes = append(s.Notes, "upstream: "+err.Error())
		return nil
	}
	return err
}
