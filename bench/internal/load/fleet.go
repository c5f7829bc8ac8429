package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Fleet is a set of informers of one collection. Each holds the number of the last write of
// every object, and goes on as the reflector of client-go does (tools/cache/reflector.go): when
// its watch ends it watches from where it was, when it is refused with 410 it lists again from
// its last resourceVersion, and when it cannot connect it tries again, after pauses as client-go
// makes them. They are not client-go's informers because a thousand of those would decode and
// hold ten million objects.
type Fleet struct {
	target wire.Target
	path   string
	loops  []*wire.Loop
	all    []*Follower
	joined sync.WaitGroup
	stop   context.CancelFunc

	Lists   atomic.Int64 // that informers began, without the first one
	Watches atomic.Int64 // that were opened
	Expired atomic.Int64 // watches that were refused with 410

	mu sync.Mutex // guards all while the fleet is opened
}

// OpenFleet lists a collection of objects with the keys 0 to keys-1 once, gives n informers that
// state, and returns when each has a watch that follows it. Close it.
func OpenFleet(ctx context.Context, t wire.Target, path string, n, keys int) (*Fleet, error) {
	f := &Fleet{target: t, path: path}
	first := NewFollower(0, keys, -1)
	if err := f.list(ctx, first, ""); err != nil {
		return nil, err
	}
	f.Lists.Store(0)
	for range runtime.GOMAXPROCS(0) {
		loop, err := wire.NewLoop(t)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.loops = append(f.loops, loop)
	}
	running, stop := context.WithCancel(ctx)
	f.stop = stop
	err := InParallel(ctx, 16, n, func(_ context.Context, _, i int) error { // the watches outlive it
		own := NewFollower(0, keys, -1)
		copy(own.next, first.next)
		own.position.Store(first.Position())
		own.version = first.version
		f.mu.Lock()
		f.all = append(f.all, own)
		f.mu.Unlock()
		opened := make(chan struct{})
		f.joined.Go(func() { f.run(running, i, own, sync.OnceFunc(func() { close(opened) })) }) // ends with Close
		select {
		case <-opened:
			return nil
		case <-time.After(time.Minute):
			return errors.New("an informer got no watch within a minute")
		}
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Pauses of client-go's reflector (NewReflectorWithOptions).
const (
	firstPause = 800 * time.Millisecond
	lastPause  = 30 * time.Second
)

// run keeps one informer up to date until ctx ends.
func (f *Fleet) run(ctx context.Context, i int, own *Follower, opened func()) {
	for pause := firstPause; ctx.Err() == nil; {
		began, events, relist := time.Now(), own.Events(), false
		err := f.watch(ctx, i, own, opened)
		own.partial = own.partial[:0]
		switch {
		case ctx.Err() != nil:
			return
		case expired(err):
			f.Expired.Add(1)
			relist = true
		case time.Since(began) > time.Second || own.Events() > events:
			pause = firstPause
			continue // it was open, and has ended
		case !errors.Is(err, syscall.ECONNREFUSED):
			relist = true
		}
		f.pause(ctx, pause)
		pause = min(2*pause, lastPause)
		if !relist {
			continue
		}
		if err := f.list(ctx, own, strconv.FormatUint(own.version, 10)); err == nil {
			pause = firstPause
		}
	}
}

// pause waits for a time, and up to as long again.
func (f *Fleet) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d + rand.N(d)): //nolint:gosec // jitter
	}
}

func (f *Fleet) watch(ctx context.Context, i int, own *Follower, opened func()) error {
	done := make(chan error, 1)
	r := wire.Request{
		Path: Query(f.path, "watch", "1", "allowWatchBookmarks", "true", "timeoutSeconds", "3600", "resourceVersion",
			strconv.FormatUint(own.version, 10)), Opened: func() {
			f.Watches.Add(1)
			opened()
		},
	}
	if err := f.loops[i%len(f.loops)].Start(ctx, r, own, func(err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

// list reads the collection into a follower.
func (f *Fleet) list(ctx context.Context, own *Follower, version string) error {
	f.Lists.Add(1)
	conn, err := f.target.Dial(ctx, wire.HTTP1)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, conn.Close)
	defer stop()
	state := &stamps{}
	if _, err := conn.Do(wire.Request{Method: http.MethodGet, Path: Query(f.path, "resourceVersion", version)},
		state); err != nil {
		return err
	}
	at, err := state.version()
	if err != nil {
		return err
	}
	position := int64(0)
	for _, s := range state.found {
		if s.Key < own.Keys {
			own.next[s.Key] = s.Seq + 1
		}
	}
	for _, next := range own.next {
		position += max(next, 0)
	}
	own.version = at
	own.position.Store(position)
	return nil
}

// stamps finds the stamps of a list's objects, and its resourceVersion.
type stamps struct {
	edges   edges
	found   []Stamp
	partial []byte
}

func (s *stamps) Write(p []byte) (int, error) {
	_, _ = s.edges.Write(p) // it takes everything
	data := append(s.partial, p...)
	const whole = len(stampName) + stampBytes
	for {
		at := bytes.Index(data, []byte(stampName))
		if at < 0 || at+whole > len(data) {
			break
		}
		stamp, ok := parseStamp(data[at+len(stampName):])
		if !ok {
			return 0, fmt.Errorf("a bad stamp in a list: %.100q", data[at:])
		}
		s.found = append(s.found, stamp)
		data = data[at+whole:]
	}
	s.partial = append(s.partial[:0], data[max(0, len(data)-whole):]...)
	return len(p), nil
}

// version is the list's resourceVersion: before the items, or at the end.
func (s *stamps) version() (uint64, error) {
	head, _, _ := bytes.Cut(s.edges.head, []byte(`"items":`))
	text := Version(head)
	if text == "" {
		text = Version(s.edges.tail[max(0, bytes.LastIndex(s.edges.tail, []byte(versionName))):])
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the resourceVersion of a list: %w", err)
	}
	return version, nil
}

// Behind returns how many informers do not have the given number of writes.
func (f *Fleet) Behind(writes int64) int {
	n := 0
	for _, one := range f.all {
		if one.Position() < writes {
			n++
		}
	}
	return n
}

// Right waits until every informer has the given number of writes, or for a time, and returns
// how many have not.
func (f *Fleet) Right(ctx context.Context, writes int64, within time.Duration) int {
	deadline := time.Now().Add(within)
	for {
		n := f.Behind(writes)
		if n == 0 || time.Now().After(deadline) || ctx.Err() != nil {
			return n
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close ends all informers and waits for them.
func (f *Fleet) Close() {
	if f.stop != nil {
		f.stop()
	}
	for _, loop := range f.loops {
		loop.Close()
	}
	f.joined.Wait()
}

// Wrong returns how many events came again or not in order. Only after Close.
func (f *Fleet) Wrong() int64 {
	var n int64
	for _, one := range f.all {
		n += one.verdict.Repeated + one.verdict.Disordered + one.verdict.Foreign
	}
	return n
}

// State is what a list had.
type State struct {
	Version string // the resourceVersion
	Objects int
}

// ReadState reads a whole collection, in any state that the server has.
func ReadState(conn wire.Conn, path string) (State, error) {
	state := &stamps{}
	if _, err := conn.Do(wire.Request{Path: Query(path, "resourceVersion", "0")}, state); err != nil {
		return State{}, err
	}
	version, err := state.version()
	return State{Version: strconv.FormatUint(version, 10), Objects: len(state.found)}, err
}

// ReadVersion returns the resourceVersion of a page of a collection, in any state that the server
// has ("0") or in the most recent one ("").
func ReadVersion(conn wire.Conn, path, version string) (uint64, error) {
	state := &stamps{}
	if _, err := conn.Do(wire.Request{Path: Query(path, "resourceVersion", version, "limit", "1")}, state); err != nil {
		return 0, err
	}
	return state.version()
}
