package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

type uid = types.UID

// runOptions is what one process measures.
type runOptions struct {
	subject  string
	list     bool // by LIST, not as streaming list
	handlers int
	pods     int
	events   int
}

// figures is what a run found. Sizes are bytes.
type figures struct {
	Retained  float64 // per pod
	SyncWall  float64 // s
	SyncCPU   float64 // s
	SyncPeak  float64
	Base      float64 // heap objects after the sync and a collection
	Events    float64 // per s
	EventCPU  float64 // us
	Mallocs   float64 // per event
	GoneWall  float64 // s
	GoneCPU   float64 // s
	GonePeak  float64
	GoneCalls float64
	Backlog   float64 // of the blocked handler, keys; -1 unknown
	Blocked   float64 // bytes that it keeps
	Relists   float64 // after a cut line to a server with history
	Resumed   float64 // s, until it had all that it missed
}

// heap watches the heap's objects, dead ones that are not swept included.
type heap struct{ peak atomic.Uint64 }

func (h *heap) watch(ctx context.Context) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for pause(ctx, 5*time.Millisecond) == nil {
		metrics.Read(sample)
		if now := sample[0].Value.Uint64(); now > h.peak.Load() {
			h.peak.Store(now)
		}
	}
}

// collect runs the garbage collector, returns the bytes in use, and resets the peak.
func (h *heap) collect() (alive, mallocs uint64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.peak.Store(m.HeapAlloc)
	return m.HeapAlloc, m.Mallocs
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure goes through all phases against the server at url.
func measure(ctx context.Context, url string, o runOptions) (f figures, err error) {
	ctx, cancel := context.WithCancel(ctx)
	h := &heap{}
	go h.watch(ctx) // ends with ctx, that is with measure
	t := &tally{}
	if o.protobuf() {
		if err := post(ctx, url+"/protobuf"); err != nil {
			cancel()
			return f, err
		}
	}
	s, err := newSubject(url, o, t)
	if err != nil {
		cancel()
		return f, err
	}
	before, _ := h.collect()
	begun, used := time.Now(), cpu()
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	if err = s.synced(ctx); err == nil {
		f.SyncWall, f.SyncCPU, f.SyncPeak = time.Since(begun).Seconds(), (cpu() - used).Seconds(), float64(h.peak.Load())
		alive, _ := h.collect()
		f.Base, f.Retained = float64(alive), (float64(alive)-float64(before))/float64(o.pods)
		err = phases(ctx, url, o, phase{s: s, t: t, h: h, f: &f})
	}
	cancel()
	if runErr := <-done; err == nil {
		err = runErr
	}
	return f, err
}

type phase struct {
	s subject
	t *tally
	h *heap
	f *figures
}

func phases(ctx context.Context, url string, o runOptions, p phase) error {
	if o.events > 0 {
		if err := p.events(ctx, url, o); err != nil {
			return err
		}
	}
	if err := p.gone(ctx, url); err != nil {
		return err
	}
	if o.events == 0 {
		return nil
	}
	return p.blocked(ctx, url, o)
}

// events measures from the first one sent to the last one handled.
func (p phase) events(ctx context.Context, url string, o runOptions) error {
	begun, used, made := time.Now(), cpu(), mallocs()
	last, err := command(ctx, url, fmt.Sprintf("events=%d&of=%d", o.events, o.pods))
	if err != nil {
		return err
	}
	for p.t.newest.Load() < last {
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("wait for event %d, at %s: %w", last, p.s.rv(), err)
		}
	}
	n := float64(o.events)
	p.f.Events = n / time.Since(begun).Seconds()
	p.f.EventCPU = float64((cpu() - used).Microseconds()) / n
	p.f.Mallocs = float64(mallocs()-made) / n
	return nil
}

// gone measures from the 410 until the store has the new state's version, with
// nothing changed, and counts the calls until a second later.
func (p phase) gone(ctx context.Context, url string) error {
	p.h.collect()
	begun, used, calls := time.Now(), cpu(), p.t.calls.Load()
	last, err := command(ctx, url, "gone=1")
	if err != nil {
		return err
	}
	for p.s.rv() != strconv.FormatInt(last, 10) {
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("wait for the state %d, at %s: %w", last, p.s.rv(), err)
		}
	}
	p.f.GoneWall = time.Since(begun).Seconds()
	for before := int64(-1); before != p.t.calls.Load(); {
		before = p.t.calls.Load()
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	p.f.GoneCPU, p.f.GonePeak = (cpu() - used).Seconds(), float64(p.h.peak.Load())
	p.f.GoneCalls = float64(p.t.calls.Load() - calls)
	return nil
}

// blocked measures what a handler that never returns keeps.
func (p phase) blocked(ctx context.Context, url string, o runOptions) error {
	until := make(chan struct{})
	defer close(until)
	before, _ := p.h.collect()
	p.s.block(until)
	last, err := command(ctx, url, fmt.Sprintf("events=%d&of=%d", o.events, max(o.pods/100, 1)))
	if err != nil {
		return err
	}
	for p.t.newest.Load() < last {
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("wait for event %d beside a blocked handler: %w", last, err)
		}
	}
	after, _ := p.h.collect()
	p.f.Backlog, p.f.Blocked = float64(p.s.behind()), float64(after)-float64(before)
	return nil
}

// command gives the server an order and returns the last resourceVersion of it.
func command(ctx context.Context, url, order string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/order?"+order, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("order %s: %w", order, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("order %s: %w", order, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("order %s: %w", order, err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
