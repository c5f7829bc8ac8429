package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"
)

// debugServer serves /debug/pprof/ without authentication: a client that reaches it
// can read the program's memory.
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
		return nil, &usageError{fmt.Errorf("--debug-listen: %w; want an address like 127.0.0.1:6060", err)}
	}
	if !isLoopback(host) {
		return nil, &usageError{
			fmt.Errorf("--debug-listen %s: want a loopback address, because it has no authentication", address),
		}
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
	d.web.Handler, d.web.ReadHeaderTimeout = onlyLocal(mux), 30*time.Second
	// The caller owns it: it ends with stop, which waits for it.
	go func() {
		defer close(d.done)
		_ = d.web.Serve(l) // it only fails by stop
	}()
	return d, nil
}

// isLoopback reports whether a host is a loopback address or localhost, without asking DNS.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// onlyLocal refuses requests that web pages of other sites make a browser send. A page
// whose host name now resolves to a loopback address (DNS rebinding) could read the
// responses, and any page could start profiles. Requests through ssh -L, to another
// port, are served.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		site := r.Header.Get("Sec-Fetch-Site") // which only browsers send
		switch {
		case !isLoopback(strings.Trim(host, "[]")):
			http.Error(w, fmt.Sprintf("host %q is not allowed: use localhost or a loopback address", r.Host),
				http.StatusForbidden)
		case site != "" && site != "none" && site != "same-origin":
			http.Error(w, "requests from pages of other sites are not allowed", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
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
