package informer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
)

func TestAFullHandlerWithMergeReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 30 {
			w.Put(fmt.Sprint("o", n), n) // more than the bound: the beginning does not count
		}
		rec := newRecorder()
		rec.slow = time.Second
		var merged []informer.Incident
		i := w.informer(informer.OnError(func(in informer.Incident) { merged = append(merged, in) }))
		reg := i.Handle(rec.handle, informer.Name("audit"), informer.Every(20, informer.Merge))
		run(t, i, func() {
			after(time.Second)
			for n := range 200 {
				w.Put(fmt.Sprint("o", n%30), 1000+n)
				after(time.Millisecond)
			}
			if n := reg.Pending(); n != 30 {
				t.Errorf("%d pending", n)
			}
			after(10 * time.Minute)
			if diff := cmp.Diff(w.state(t), rec.state()); diff != "" {
				t.Error(diff)
			}
			before := len(rec.all())
			for n := range 20 { // there is room again: each version is delivered
				w.Put("o1", 2000+n)
				after(time.Millisecond)
			}
			after(10 * time.Minute)
			for n, e := range rec.all()[before:] {
				if e.New.Value != 2000+n || e.Merged != 0 {
					t.Errorf("%d: %v %d, merged %d", n, e.Type, e.New.Value, e.Merged)
				}
			}
			if n := len(rec.all()) - before; n != 20 {
				t.Errorf("%d versions delivered, want 20", n)
			}
		})
		rec.check(t)
		changes := 0
		for _, e := range rec.all() {
			changes += 1 + e.Merged
		}
		if changes != 250 { // 30 + 200 + 20
			t.Errorf("events stand for %d changes, want 250", changes)
		}
		if len(merged) != 1 || merged[0].Kind != informer.HandlerMerged || merged[0].Handler != "audit" ||
			!errors.Is(merged[0].Err, informer.ErrFull) || merged[0].Next == "" {
			t.Errorf("incidents %v", merged)
		}
	})
}

func TestAFullHandlerWithFailStopsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		for n := range 30 {
			w.Put(fmt.Sprint("o", n), n)
		}
		good := newRecorder()
		var stopped []informer.Incident
		i := w.informer(informer.OnError(func(in informer.Incident) { stopped = append(stopped, in) }))
		blocked := i.Handle(func(ctx context.Context, _ event) error {
			<-ctx.Done()
			return ctx.Err()
		}, informer.Name("audit"), informer.Every(20, informer.Fail))
		i.Handle(good.handle)
		run(t, i, func() {
			after(time.Second)
			if err := blocked.Err(); err != nil {
				t.Errorf("stopped by the beginning: %v", err)
			}
			for n := range 50 {
				w.Put(fmt.Sprint("o", n%30), 1000+n)
				after(time.Millisecond)
			}
			if err := blocked.Err(); !errors.Is(err, informer.ErrFull) || blocked.Pending() != 0 {
				t.Errorf("err %v, %d pending", err, blocked.Pending())
			}
			if err := blocked.WaitSynced(t.Context()); !errors.Is(err, informer.ErrFull) {
				t.Errorf("WaitSynced: %v", err)
			}
			if diff := cmp.Diff(w.state(t), good.state()); diff != "" {
				t.Error(diff)
			}
		})
		good.check(t)
		if len(stopped) != 1 || stopped[0].Kind != informer.HandlerStopped || stopped[0].Handler != "audit" ||
			!errors.Is(stopped[0].Err, informer.ErrFull) {
			t.Errorf("incidents %v", stopped)
		}
	})
}
