package bootstrap_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

var errFull = errors.New("no space left on device")

// full is a registry without space: it fails every call, and counts those of tasks.
type full struct{ calls atomic.Int64 }

func (f *full) fail() error {
	f.calls.Add(1)
	return errFull
}

func (f *full) Get(context.Context, kinds.Target, string) (*wire.Object, error) {
	return nil, f.fail()
}

func (f *full) Watch(context.Context, kinds.Target, wire.ListOptions) (wire.Watch, error) {
	return nil, errFull
}

func (f *full) Create(context.Context, kinds.Target, []byte, metav1.CreateOptions) (wire.Written, error) {
	return wire.Written{}, f.fail()
}

func (f *full) Update(context.Context, kinds.Target, []byte, metav1.UpdateOptions) (wire.Written, error) {
	return wire.Written{}, f.fail()
}

func (f *full) Patch(context.Context, kinds.Target, wire.Patch, metav1.PatchOptions) (wire.Written, error) {
	return wire.Written{}, f.fail()
}

func (f *full) Delete(context.Context, kinds.Target, metav1.DeleteOptions) (wire.Written, error) {
	return wire.Written{}, f.fail()
}

// TestFailedWritesAreRetriedWithBackoff: a disk may be full for hours, and each try is a
// line in the log.
func TestFailedWritesAreRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		verbs := &full{}
		k := bootstrap.New(bootstrap.Config{
			Verbs: verbs, Live: kinds.NewLive(builtin.Catalog()), Address: netip.MustParseAddrPort(here),
			Logger: slog.New(slog.DiscardHandler),
		})
		ctx, stop := context.WithCancel(t.Context())
		k.Make(ctx)
		once := verbs.calls.Load()
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }() // ends with stop
		<-time.After(time.Hour)             // virtual
		stop()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
		// 1, 2, 4, … 32 s, and then a minute each time.
		if rounds := verbs.calls.Load() / once; rounds < 60 || rounds > 70 {
			t.Errorf("everything was tried %d times in an hour", rounds)
		}
	})
}

// TestWhatHasFailedIsTriedInTheNextRun: on another replica's turn nothing is tried, and nothing is lost.
func TestWhatHasFailedIsTriedInTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		verbs := &full{}
		k := bootstrap.New(bootstrap.Config{
			Verbs: verbs, Live: kinds.NewLive(builtin.Catalog()), Logger: slog.New(slog.DiscardHandler),
		})
		k.Make(t.Context())
		once := verbs.calls.Load()
		if once == 0 {
			t.Fatal("nothing was tried at the start")
		}
		for run := range 2 {
			before := verbs.calls.Load()
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- k.Run(ctx) }() // ends with stop
			<-time.After(10 * time.Minute)      // virtual
			stop()
			if err := <-ended; err != nil {
				t.Errorf("wait for the end: %v", err)
			}
			if tried := verbs.calls.Load() - before; tried < 5*once {
				t.Errorf("run %d: %d tries in ten minutes, want at least %d", run, tried, 5*once)
			}
		}
	})
}
