package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/kube"
)

// server is one with faults, which runs until the test ends.
type server struct {
	*gapless.Server

	faults *fault.Set
}

func launch(t testing.TB, change ...func(*gapless.Config)) *server {
	t.Helper()
	cfg := gapless.Config{Memory: true, Listen: "127.0.0.1:0", Faults: fault.New(1)}
	for _, c := range change {
		c(&cfg)
	}
	s, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	t.Cleanup(func() {
		if cfg.Faults != nil {
			cfg.Faults.Clear()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatalf("run: %v", err)
	}
	return &server{s, cfg.Faults}
}

// way is how a watch is sent.
type way string

const (
	http1    way = "HTTP/1.1"
	http2    way = "HTTP/2"
	protobuf way = "protobuf"
	socket   way = "WebSocket"
)

// clientOf returns a client of its own connections.
func clientOf(t testing.TB, cfg *rest.Config, w way) *client.Client {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = fmt.Sprintf("faults-test/%d", serial.Add(1))
	if w != http2 && w != protobuf {
		cfg.NextProtos = []string{"http/1.1"}
	}
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatalf("make the TLS configuration: %v", err)
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: w == http2 || w == protobuf}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(&rest.Config{
		Host: cfg.Host, BearerToken: cfg.BearerToken, Transport: transport, UserAgent: cfg.UserAgent,
	})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return c.As(client.Form{Protobuf: w == protobuf})
}

var serial atomic.Int64

// configMaps are those of a namespace of the test's own, with two objects.
func configMaps(t testing.TB, s *server) client.Collection {
	t.Helper()
	name := fmt.Sprintf("faults-%d", serial.Add(1))
	of := client.Collection{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: name,
	}
	c := clientOf(t, s.RESTConfig(), http2)
	post(t, c, "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`)
	add(t, c, of, "a")
	add(t, c, of, "b")
	return of
}

func add(t testing.TB, c *client.Client, to client.Collection, name string) {
	t.Helper()
	post(t, c, to.Path(), `{"metadata":{"name":"`+name+`"}}`)
}

func post(t testing.TB, c *client.Client, path, body string) {
	t.Helper()
	if err := do(t, c, client.Request{Method: http.MethodPost, Path: path, Body: []byte(body)}); err != nil {
		t.Fatalf("create %s in %s: %v", body, path, err)
	}
}

func do(t testing.TB, c *client.Client, r client.Request) error {
	t.Helper()
	resp, err := c.Do(t.Context(), r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// streaming are the options of a streaming list: the objects, and the bookmark after them.
func streaming() metav1.ListOptions {
	yes := true
	return metav1.ListOptions{
		AllowWatchBookmarks: true, SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
}

// follow reads a streaming list until it ends, or has so many events: "ADDED a", and at last
// what ended it: "end", the code of a Status, or "broken".
func follow(t testing.TB, s *server, of client.Collection, w way, most int) string {
	t.Helper()
	return followAt(t, s.RESTConfig(), of, w, most)
}

// followAt is follow for any server.
func followAt(t testing.TB, cfg *rest.Config, of client.Collection, w way, most int) string {
	t.Helper()
	if w == socket {
		return followSocket(t, cfg, of, most)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := clientOf(t, cfg, w).Watch(ctx, of, streaming())
	if err != nil {
		return ending(err)
	}
	defer func() { _ = watch.Close() }() // it was read
	var got []string
	for len(got) < most {
		f, err := watch.Next()
		if err != nil {
			return strings.Join(append(got, ending(err)), ",")
		}
		meta, err := f.Meta()
		if err != nil {
			got = append(got, f.Type.String()+" ?")
			continue
		}
		got = append(got, strings.TrimSpace(f.Type.String()+" "+meta.Name))
	}
	return strings.Join(got, ",")
}

// ending is how an error is written in these tests.
func ending(err error) string {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return "end"
	case errors.As(err, &status):
		return fmt.Sprint(status.Status().Code)
	}
	return "broken"
}

func followSocket(t testing.TB, cfg *rest.Config, of client.Collection, most int) string {
	t.Helper()
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatalf("make the TLS configuration: %v", err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	ws, resp, err := websocket.Dial(t.Context(),
		cfg.Host+of.Path()+"?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		return "broken"
	}
	if resp.Body != nil {
		defer resp.Body.Close()
	}
	defer func() { _ = ws.CloseNow() }() // it may have ended
	ws.SetReadLimit(64 << 20)
	var got []string
	for len(got) < most {
		_, message, err := ws.Read(t.Context())
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			return strings.Join(append(got, "end"), ",")
		}
		if err != nil {
			return strings.Join(append(got, "broken"), ",")
		}
		var e struct {
			Type   string
			Object struct {
				Metadata struct{ Name string }
				Code     int
			}
		}
		switch err := json.Unmarshal(message, &e); {
		case err != nil:
			got = append(got, "broken")
		case e.Type == "ERROR":
			return strings.Join(append(got, fmt.Sprint(e.Object.Code)), ",")
		default:
			got = append(got, strings.TrimSpace(e.Type+" "+e.Object.Metadata.Name))
		}
	}
	return strings.Join(got, ",")
}

// list lists the collection and returns its resource version and its number of objects.
func list(t testing.TB, c *client.Client, of client.Collection,
	o metav1.ListOptions,
) (rv kube.ResourceVersion, n int, err error) {
	t.Helper()
	meta, err := c.List(t.Context(), of, o, func([]byte) error { n++; return nil })
	if err != nil {
		return 0, n, err
	}
	rv, err = kube.ParseResourceVersion(meta.ResourceVersion)
	return rv, n, err
}
