package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// canned is the server: its pods, and the changes that it has to make to them.
type canned struct {
	fleet *fleet

	// mu guards the states of the pods.
	mu  sync.Mutex
	rvs []int64
	rv  int64

	orders chan order

	// binary are the pods in protobuf, once they are prepared.
	binary []binaryPod
	once   sync.Once
}

// order is what the open watch has to do. done is closed when it is done.
type order struct {
	events int
	of     int // number of pods that change, one after another
	gone   bool
	done   chan struct{}
}

func newCanned(pods int) *canned {
	c := &canned{fleet: newFleet(pods), rvs: make([]int64, pods), rv: 1_000_000, orders: make(chan order)}
	for n := range c.rvs {
		c.rvs[n] = int64(1000 + n)
	}
	return c
}

// serve answers on an ephemeral port of the loopback, says which on out, and ends
// with in.
func serve(ctx context.Context, pods int, in io.Reader, out io.Writer) error {
	c := newCanned(pods)
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", c.pods)
	mux.HandleFunc("POST /order", c.order)
	mux.HandleFunc("POST /protobuf", c.prepare)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(out, "http://%s\n", l.Addr())
	go func() { // ends with serve's caller, whose end closes in
		_, _ = io.Copy(io.Discard, in)
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// order does as it is asked: events=N and of=M, or gone=1; it answers with the last
// resourceVersion.
func (c *canned) order(w http.ResponseWriter, r *http.Request) {
	o := order{gone: r.FormValue("gone") != "", done: make(chan struct{})}
	o.events, _ = strconv.Atoi(r.FormValue("events"))
	o.of, _ = strconv.Atoi(r.FormValue("of"))
	// The last version is known in advance, so no one needs to wait for it.
	c.mu.Lock()
	last := c.rv + int64(max(o.events, 1))
	c.mu.Unlock()
	select {
	case c.orders <- o:
	case <-r.Context().Done():
		return
	}
	fmt.Fprintln(w, last)
}

func (c *canned) pods(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.Header.Get("Accept"), typeProtobuf) {
		c.protobuf(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	if q.Get("watch") == "" {
		c.list(w)
		return
	}
	var b bytes.Buffer
	if q.Get("sendInitialEvents") == "true" {
		c.each(w, &b, `{"type":"ADDED","object":`, "}\n")
		fmt.Fprintf(&b,
			`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d",`+
				`"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}}`+"\n", c.now())
	}
	_, _ = w.Write(b.Bytes())
	flush := http.NewResponseController(w).Flush
	for {
		_ = flush() // a client that is gone is found by its context
		select {
		case <-r.Context().Done():
			return
		case o := <-c.orders:
			if o.gone {
				c.mu.Lock()
				c.rv++
				c.mu.Unlock()
				fmt.Fprint(w,
					`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
						`"message":"too old resource version","reason":"Expired","code":410}}`+"\n")
				return
			}
			c.events(w, o)
		}
	}
}

func (c *canned) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rv
}

func (c *canned) events(w io.Writer, o order) {
	var b bytes.Buffer
	for k := range o.events {
		n := k % min(o.of, len(c.rvs))
		c.mu.Lock()
		c.rv++
		c.rvs[n] = c.rv
		rv := c.rv
		c.mu.Unlock()
		b.WriteString(`{"type":"MODIFIED","object":`)
		c.fleet.write(&b, n, rv)
		b.WriteString("}\n")
		if b.Len() > 32<<10 || k == o.events-1 {
			if _, err := w.Write(b.Bytes()); err != nil {
				return
			}
			b.Reset()
		}
	}
}

// each writes every pod between two texts.
func (c *canned) each(w io.Writer, b *bytes.Buffer, before, behind string) {
	for n := range c.rvs {
		c.mu.Lock()
		rv := c.rvs[n]
		c.mu.Unlock()
		b.WriteString(before)
		c.fleet.write(b, n, rv)
		if behind != "," || n < len(c.rvs)-1 {
			b.WriteString(behind)
		}
		if b.Len() > 256<<10 {
			if _, err := w.Write(b.Bytes()); err != nil {
				return
			}
			b.Reset()
		}
	}
}

func (c *canned) list(w io.Writer) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[`, c.now())
	c.each(w, &b, "", ",")
	b.WriteString("]}\n")
	_, _ = w.Write(b.Bytes())
}
