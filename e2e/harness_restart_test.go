package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless"
)

// restartable is a data directory and the server that runs on it now.
type restartable struct {
	*caller

	server *launched
	cfg    gapless.Config
}

// launchRestartable makes the data directory and starts its first server.
func launchRestartable(t *testing.T) *restartable {
	t.Helper()
	// A life on another port would write the Endpoints of the server again.
	l := &restartable{cfg: gapless.Config{DataDir: filepath.Join(t.TempDir(), "data"), Bootstrap: gapless.BootstrapNone}}
	l.start(t)
	return l
}

func (l *restartable) start(t *testing.T) {
	t.Helper()
	l.server = launch(t, l.cfg)
	l.caller = l.server.caller(t, http2)
}

func (l *restartable) restart(t *testing.T) {
	t.Helper()
	l.http.CloseIdleConnections()
	l.server.stop()
	l.start(t)
}

// refused requires that no server starts with a configuration, and returns why.
func refused(t *testing.T, cfg gapless.Config) string {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	s, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }() // ends by itself, or with the test
	select {
	case err = <-ended:
	case <-s.Ready():
		t.Fatal("the server serves")
	}
	if err == nil {
		t.Fatal("the server ended without an error")
	}
	return err.Error()
}
