package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// debugServer serves /debug/pprof/ without credentials: whoever reaches it can
// read the program's memory.
type debugServer struct {
	url  string
	done chan struct{}
	web  http.Server
}

// startDebug listens on an address of this machine. It returns nil for "".
func startDebug(ctx context.Context, address string) (*debugServer, error) {
	if address == "" {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--debug-listen: %w; it must look like 127.0.0.1:6060", err)}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, &usageError{fmt.Errorf("--debug-listen %s: it asks nobody for credentials, so it must be a loopback address", address)}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--debug-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	d := &debugServer{url: "http://" + l.Addr().String(), done: make(chan struct{})}
	d.web.Handler, d.web.ReadHeaderTimeout = mux, 30*time.Second
	// The caller owns it: it ends with stop, which waits for it.
	go func() {
		defer close(d.done)
		_ = d.web.Serve(l) // it only fails by stop
	}()
	return d, nil
}

// stop ends it; a nil server has ended.
func (d *debugServer) stop() {
	if d == nil {
		return
	}
	_ = d.web.Close() // the listener's end is all that there is to fail
	<-d.done
}

func (d *debugServer) address() string {
	if d == nil {
		return ""
	}
	return d.url
}
