package play

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gapless-io/gapless/conformance/differential/script"
)

// everything is more frames than any stream has.
const everything = 1 << 30

// stream is an open watch. A goroutine of its own reads it until it ends or is left.
type stream struct {
	leave    func()
	opened   time.Time
	deadline time.Duration
	acted    func() time.Time
	send     func(opcode byte, payload []byte) error // of a WebSocket

	// mu guards what the reader writes; more is closed and replaced by each write.
	mu     sync.Mutex
	frames []Frame
	pongs  int
	ending *Ending
	more   chan struct{}

	taken int // by the player alone
}

func (p *player) newStream(path string, leave func()) *stream {
	s := &stream{leave: leave, opened: time.Now(), acted: p.lastAct, more: make(chan struct{})}
	if _, query, ok := strings.Cut(path, "?"); ok {
		values, err := url.ParseQuery(query)
		if seconds, err2 := strconv.Atoi(values.Get("timeoutSeconds")); err == nil && err2 == nil && seconds > 0 {
			s.deadline = time.Duration(seconds) * time.Second
		}
	}
	return s
}

// now places this moment in the life of the stream.
func (s *stream) now() Moment {
	m := Moment{SinceOpen: time.Since(s.opened), Deadline: s.deadline}
	m.SinceAction = min(m.SinceOpen, time.Since(s.acted()))
	return m
}

func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.more)
	s.more = make(chan struct{})
}

func (s *stream) frame(raw []byte) {
	f := Frame{Moment: s.now(), Raw: raw}
	s.change(func() { s.frames = append(s.frames, f) })
}

func (s *stream) end(how string) {
	e := &Ending{Moment: s.now(), How: how}
	s.change(func() { s.ending = e })
}

// open opens a stream and waits for the header of its answer.
func (p *player) open(ctx context.Context, r *Result) error {
	if p.streams[r.Step.Name] != nil {
		return fmt.Errorf("the stream %s is open already", r.Step.Name)
	}
	ctx, cancel := context.WithCancel(ctx)
	req, err := p.newRequest(ctx, r)
	if err != nil {
		cancel()
		return err
	}
	s := p.newStream(r.Path, cancel)
	if r.Step.Verb == script.Socket {
		if r.Answer = p.dial(ctx, req, s); r.Answer.Code == http.StatusSwitchingProtocols {
			p.streams[r.Step.Name] = s
			return nil
		}
		cancel()
		p.last = r.Answer.Body
		return nil
	}
	resp, err := p.transport.RoundTrip(req)
	r.Answer = &Answer{Took: time.Since(s.opened), Failed: err}
	if err != nil {
		cancel()
		return nil // what a server does is a result
	}
	r.Answer.Code, r.Answer.Header = resp.StatusCode, resp.Header
	if len(resp.TransferEncoding) > 0 {
		resp.Header.Set("Transfer-Encoding", strings.Join(resp.TransferEncoding, ","))
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel()
		r.Answer.Body, r.Answer.Failed = io.ReadAll(resp.Body)
		p.last = r.Answer.Body
		_ = resp.Body.Close() // it was read
		return nil
	}
	p.streams[r.Step.Name] = s
	// It ends with the stream, or with the context that leave cancels.
	go s.read(resp)
	return nil
}

// read reads lines until there are no more.
func (s *stream) read(resp *http.Response) {
	defer func() { _ = resp.Body.Close() }() // it was read, or left
	var body io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		zipped, err := gzip.NewReader(resp.Body) // waits for the first bytes
		if err != nil {
			s.end(fmt.Sprintf("cut in the gzip header: %v", err))
			return
		}
		body = zipped
	}
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			s.frame(bytes.TrimSuffix(line, []byte("\n")))
		}
		switch {
		case errors.Is(err, io.EOF):
			s.end("clean")
			return
		case err != nil:
			s.end("cut")
			return
		}
	}
}

// onStream does what a step does to an open stream. One that was refused got no
// frame and has ended: what was answered says why.
func (p *player) onStream(ctx context.Context, r *Result) error {
	s := p.streams[r.Step.Name]
	if s == nil {
		r.Ending = &Ending{How: "was never open"}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Step.Wait)
	defer cancel()
	switch r.Step.Verb {
	case script.Read:
		for i := 0; i < r.Step.Frames && s.next(ctx, r, func() bool { return len(s.frames) > s.taken }); i++ {
			s.take(r, 1)
		}
	case script.Quiet:
		s.next(ctx, r, func() bool { return false })
		s.take(r, everything)
	case script.End:
		s.next(ctx, r, func() bool { return false })
		s.take(r, everything)
		if r.Ending == nil {
			r.Ending = &Ending{Moment: s.now(), How: "open"}
		}
	case script.Ping:
		p.ping(ctx, s, r)
	case script.Close:
		s.leave()
		delete(p.streams, r.Step.Name)
	case script.Request, script.Capture, script.Keep, script.Edit, script.Compare, script.Watch, script.Socket, script.Await,
		script.Compact, script.Forget, script.Restart, script.Crash, script.Pause, script.Join:
		return fmt.Errorf("verb %d is not for streams", r.Step.Verb)
	}
	if n := len(r.Frames); n > 0 {
		p.last = r.Frames[n-1].Raw
	}
	return nil
}

// next waits until ok, which is called with mu held, or the stream has ended, which
// it notes, or ctx is done.
func (s *stream) next(ctx context.Context, r *Result, ok func() bool) bool {
	for {
		s.mu.Lock()
		done, ending, more := ok(), s.ending, s.more
		s.mu.Unlock()
		switch {
		case done:
			return true
		case ending != nil:
			r.Ending = ending
			return false
		}
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}

// take moves up to n frames that are in no result yet into a result.
func (s *stream) take(r *Result, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.frames)-s.taken)
	r.Frames = append(r.Frames, s.frames[s.taken:s.taken+n]...)
	s.taken += n
}
