package informer_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// backend is what an informer reads of a script: all, or one namespace. One goroutine
// uses it.
type backend struct {
	*script
	rng       *rand.Rand // for what goes wrong, because requests have an order of their own
	namespace string     // "" for all
	lends     bool
	lent      []byte
	requests  int // for a state or a watch; pages are not counted

	answered int  // the epoch of the last whole state that was handed over
	known    int  // the epoch of the last whole state that was taken
	astray   bool // a watch went on in another epoch, which no client can know
}

func (b *backend) mine(v *version) bool {
	return v != nil && (b.namespace == "" || v.key.Namespace == b.namespace)
}

// lend hands out bytes, for a while if the source lends.
func (b *backend) lend(raw []byte) []byte {
	if !b.lends {
		return raw
	}
	for n := range b.lent {
		b.lent[n] = 'x'
	}
	b.lent = append(b.lent[:0], raw...)
	return b.lent
}

// answer performs what comes before an answer.
func (b *backend) answer(ctx context.Context, f flaw) error {
	if f.delay > 0 {
		timer := time.NewTimer(f.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	switch {
	case f.hang:
		<-ctx.Done()
		return context.Cause(ctx)
	case f.refuse:
		return errRefused
	}
	return f.err
}

// List answers a LIST, with the state as of when it was asked or of when it goes.
func (b *backend) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	b.mu.Lock()
	f := b.flawLocked()
	b.shouts("LIST rv=%q continue=%q limit=%d: %+v", o.ResourceVersion, o.Continue, o.Limit, f)
	epoch, rv := b.epoch, b.rvLocked()
	b.mu.Unlock()
	if o.Continue == "" {
		b.requests++
	}
	if err := b.answer(ctx, f); err != nil {
		return metav1.ListMeta{}, err
	}
	b.mu.Lock()
	if epoch != b.epoch || !f.late {
		epoch, rv = b.epoch, b.rvLocked()
	}
	start := 0
	asked, _ := strconv.Atoi(o.ResourceVersion)
	var err error
	switch {
	case o.Continue != "":
		of := 0
		_, err = fmt.Sscanf(o.Continue, "%d-%d-%d", &of, &rv, &start)
		if err != nil || f.expire || of != b.epoch || rv < b.floor {
			err = refusal(410, "Expired", 0)
			rv = b.first
		}
	case asked > rv:
		err = tooLarge()
	case o.ResourceVersion != "": // a consistent read is never behind
		rv = max(rv-f.lag, b.first)
	}
	state := b.moments[epoch][rv-b.first]
	b.mu.Unlock()
	if err != nil {
		return metav1.ListMeta{}, err
	}
	return b.page(ctx, o, page{flaw: f, state: state, epoch: epoch, rv: rv, start: start}, each)
}

// page is what a LIST answers with.
type page struct {
	flaw
	state            moment
	epoch, rv, start int
}

func (b *backend) page(ctx context.Context, o metav1.ListOptions, p page, each func([]byte) error) (metav1.ListMeta, error) {
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(p.rv)}
	if p.noRV {
		meta.ResourceVersion = ""
	}
	if p.garbage != "" {
		if err := each(b.lend([]byte(p.garbage))); err != nil {
			return meta, err
		}
	}
	sent := 0
	for n := p.start; n < population; n++ {
		if p.end != "" && sent >= p.after {
			break
		}
		if !b.mine(p.state[n]) {
			continue
		}
		if sent == p.pages && (o.Limit > 0 || p.expire) {
			meta.Continue = fmt.Sprintf("%d-%d-%d", p.epoch, p.rv, n)
			return meta, nil
		}
		sent++
		if err := each(b.lend(p.state[n].raw)); err != nil {
			return meta, err
		}
	}
	switch p.end {
	case "":
		b.answered = p.epoch
		return meta, nil
	case "silent":
		<-ctx.Done()
		return meta, context.Cause(ctx)
	case "garbage":
		return meta, &kube.DecodeError{Offset: 7, Why: "no JSON"}
	}
	return meta, fmt.Errorf("list: %w", io.ErrUnexpectedEOF)
}

// Watch opens a watch or a streaming list.
func (b *backend) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	b.mu.Lock()
	f := b.flawLocked()
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	b.shouts("WATCH rv=%q initial=%t: %+v", o.ResourceVersion, initial, f)
	b.mu.Unlock()
	b.requests++
	if err := b.answer(ctx, f); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &stream{
		backend: b, ctx: ctx, f: f, boot: b.boot, epoch: b.epoch,
		tick: time.Now().Add(time.Minute), end: time.Now().Add(time.Duration(*o.TimeoutSeconds) * time.Second),
	}
	s.position, _ = strconv.Atoi(o.ResourceVersion)
	s.asked = s.position
	switch now := b.rvLocked(); {
	case initial && !f.plain:
		if s.position > now {
			s.over = tooLarge()
			break
		}
		s.begin()
	case o.ResourceVersion == "": // what there is, and no end of it
		s.position = now
		s.state(b.stateLocked())
	case s.position < b.floor, b.lostLocked(s.position) && (b.healed || !f.late):
		// After a restore that says what is lost (etcdutl snapshot restore
		// --bump-revision --mark-compacted) these are 410. Other servers just answer.
		s.over = refusal(410, "Expired", 0)
	case s.position > now && f.early%2 == 1:
		s.over = tooLarge()
	default:
		if b.lostLocked(s.position) {
			b.astray = true
		} else if !b.astray {
			b.known = b.epoch
		}
		if s.position <= now {
			s.position = max(s.position-f.early, b.floor)
		}
	}
	return s, nil
}

// lostLocked says that a position is in a history that was lost.
func (b *backend) lostLocked(position int) bool {
	return b.known != b.epoch && position > b.sharedLocked(b.known)
}

// stream is an open watch.
type stream struct {
	*backend
	ctx      context.Context //nolint:containedctx // the request's
	f        flaw
	boot     int
	epoch    int
	asked    int
	position int // events up to here are queued
	queue    []client.Frame
	sent     int
	tick     time.Time
	end      time.Time
	last     bool // the time is over
	over     error
}

func (s *stream) push(t kube.EventType, raw []byte) {
	if s.f.confuse && (t == kube.Added || t == kube.Modified) {
		t = kube.Added + kube.Modified - t
	}
	s.queue = append(s.queue, client.Frame{Type: t, Object: raw})
}

func (s *stream) mark(t kube.EventType, rv int) {
	if t == kube.InitialEventsEnd && s.f.noRV {
		s.push(t, []byte(`{"metadata":{}}`))
		return
	}
	s.push(t, fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d"}}`, rv))
}

// state queues a state.
func (s *stream) state(m moment) {
	for n, v := range m {
		if s.mine(v) {
			s.push(kube.Added, v.raw)
		}
		if n == population/2 && s.f.back { // a bookmark that is not the end
			s.mark(kube.Bookmark, s.position)
		}
	}
}

// begin queues the initial events.
func (s *stream) begin() {
	now := s.rvLocked()
	s.position = now
	if s.asked > 0 { // a consistent read is never behind
		s.position = max(now-s.f.lag, s.first)
	}
	if s.f.live {
		s.position = max(now-3, s.first)
	}
	s.state(s.moments[s.script.epoch][s.position-s.first])
	if s.f.live {
		s.events(now)
	}
	if s.f.garbage != "" {
		s.push(0, []byte(s.f.garbage))
	}
	if !s.f.noEnd {
		s.mark(kube.InitialEventsEnd, s.position)
		if s.f.again {
			s.mark(kube.InitialEventsEnd, s.position)
		}
	}
}

// events queues what happened up to now.
func (s *stream) events(now int) {
	first := len(s.queue)
	for n, o := range s.log {
		switch {
		case o.rv <= s.position || o.rv > now || !s.mine(o.v):
			continue
		case o.deleted:
			s.push(kube.Deleted, o.v.raw)
		case n > 0 && s.moments[s.script.epoch][o.rv-1-s.first][o.name] != nil:
			s.push(kube.Modified, o.v.raw)
		default:
			s.push(kube.Added, o.v.raw)
		}
	}
	s.position = max(s.position, now)
	if fresh := len(s.queue) - first; s.f.again && fresh > 1 {
		s.queue = append(s.queue, s.queue[len(s.queue)-1-fresh/2:]...)
	}
}

// Ready says whether a frame waits that will come.
func (s *stream) Ready() bool {
	return len(s.queue) > 0 && (s.f.end == "" || s.sent < s.f.after)
}

// Close ends the stream.
func (s *stream) Close() error { return nil }

// Next waits for a frame.
func (s *stream) Next() (client.Frame, error) {
	for {
		wake, until := s.turn()
		if s.over != nil {
			return client.Frame{}, fmt.Errorf("watch: %w", s.over)
		}
		if len(s.queue) > 0 {
			f := s.queue[0]
			s.queue = s.queue[1:]
			s.sent++
			if f.Type == kube.InitialEventsEnd {
				s.answered = s.epoch
			}
			f.Object = s.lend(f.Object)
			return f, nil
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-s.ctx.Done():
			s.over = context.Cause(s.ctx)
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// turn queues what is to be said now, or says what to wait for.
func (s *stream) turn() (wake chan struct{}, until time.Time) {
	if s.over == nil && s.f.end != "" && s.sent >= s.f.after {
		s.over = s.ending()
	}
	if s.over != nil || s.ctx.Err() != nil && s.cause() {
		return nil, until
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boot != s.script.boot {
		s.over = io.ErrUnexpectedEOF
		return nil, until
	}
	if len(s.queue) > 0 {
		return nil, until
	}
	now := s.rvLocked()
	if !s.healed {
		now -= s.f.lag
	}
	s.events(now)
	if g := s.f.garbage; g != "" && s.sent > 1 {
		s.push(kube.Modified, []byte(g))
		s.f.garbage = ""
	}
	clock := time.Now()
	if s.last && len(s.queue) == 0 {
		s.over = io.EOF
		return nil, until
	}
	s.last = !clock.Before(s.end)
	if s.last || !clock.Before(s.tick) {
		s.tick = clock.Add(time.Minute)
		switch {
		case s.f.silent:
		case s.f.back && s.asked > 0:
			s.mark(kube.Bookmark, s.asked-2)
			s.f.back = false
		default:
			s.mark(kube.Bookmark, min(s.position, s.rvLocked()))
		}
	}
	if s.last && len(s.queue) == 0 {
		s.over = io.EOF
	}
	if s.tick.Before(s.end) {
		return s.wake, s.tick
	}
	return s.wake, s.end
}

// cause ends the stream with its context.
func (s *stream) cause() bool {
	s.over = context.Cause(s.ctx)
	return true
}

// ending is how the script ends the stream.
func (s *stream) ending() error {
	switch s.f.end {
	case "eof":
		return io.EOF
	case "cut":
		return io.ErrUnexpectedEOF
	case "garbage":
		return &kube.DecodeError{Offset: 7, Why: "no JSON"}
	case "silent":
		<-s.ctx.Done()
		return context.Cause(s.ctx)
	case "410":
		return refusal(410, "Expired", 0)
	case "504":
		return tooLarge()
	case "429":
		return refusal(429, "TooManyRequests", 3)
	case "403":
		return refusal(403, "Forbidden", 0)
	case "500":
		return refusal(500, "InternalError", 0)
	}
	return refusal(0, "", 0)
}
