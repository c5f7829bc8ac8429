package gapless_test

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// launched is a server that runs inside a test; stop ends it before the test ends.
type launched struct {
	*gapless.Server

	stop func()
}

// launch runs a server until the test ends. Without a data directory it keeps
// everything in memory.
func launch(t testing.TB, cfg gapless.Config) launched {
	t.Helper()
	cfg.Memory, cfg.Listen = cfg.DataDir == "", "127.0.0.1:0"
	s, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-s.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatalf("run: %v", err)
	}
	return launched{Server: s, stop: stop}
}
