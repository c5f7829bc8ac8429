package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
)

// directory is where the stand-in for etcd says where its directory is.
const directory = "/data-dir"

// etcd answers GET /health until ctx ends. It keeps nothing: the server beside it writes to
// its directory, so that the objects are there for the next server with this etcd.
func etcd(ctx context.Context, args []string) error {
	flags := flagsOf("etcd")
	clients := flags.String("listen-client-urls", "", "the URL to listen on")
	dir := flags.String("data-dir", "", "directory for the objects")
	report := ignored(flags, map[string]string{
		"listen-peer-urls":      "there are no peers",
		"advertise-client-urls": "it is known by the URL that it listens on",
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	report(os.Stderr)
	at, err := url.Parse(*clients)
	if err != nil {
		return fmt.Errorf("--listen-client-urls: %w", err)
	}
	if *dir == "" {
		return errors.New("--data-dir is required")
	}
	absolute, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"health":"true","reason":""}`) // the client has left
	})
	mux.HandleFunc("GET "+directory, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, absolute) // the client has left
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.Host)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // nothing is lost
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
