package listwatchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

// View reads a server for one client, without encoding and without goroutines. It has the
// methods of an informer.Backend, except for the result type of Watch.
type View struct {
	Server    *Server
	Namespace string // "" means all
	// Fail is the rule for this view's requests; nil means the server's.
	Fail func(Request) Fault
	// Lend makes the view overwrite the bytes of an object when it returns the next one, to
	// find clients that keep them.
	Lend bool
	// Position records which of the server's histories the client's state is from; nil
	// means that it is not recorded.
	Position *Position

	lent []byte
}

// Stream is an open watch of a View.
type Stream struct {
	view  *View
	ctx   context.Context //nolint:containedctx // the request's
	w     *stream
	close sync.Once
}

// lend returns raw, or with Lend a copy that the next call overwrites.
func (v *View) lend(raw []byte) []byte {
	if !v.Lend {
		return raw
	}
	for n := range v.lent {
		v.lent[n] = 'x'
	}
	v.lent = append(v.lent[:0], raw...)
	return v.lent
}

// List answers a LIST.
func (v *View) List(ctx context.Context, o metav1.ListOptions, each func(item []byte) error) (metav1.ListMeta, error) {
	r := RequestOf(o)
	r.Namespace = v.Namespace
	p, err := v.Server.list(ctx, r, v.Server.faultOf(r, v.Fail))
	if err != nil {
		return metav1.ListMeta{}, err
	}
	meta := metav1.ListMeta{ResourceVersion: p.resourceVersion(), Continue: p.next}
	for n, item := range p.items {
		if p.ends() && n >= p.After {
			break
		}
		if err := each(v.lend(item)); err != nil {
			return meta, err
		}
	}
	switch p.End {
	case "silent":
		<-ctx.Done()
		return meta, context.Cause(ctx)
	case "garbage":
		return meta, &kube.DecodeError{Offset: 7, Why: "no JSON"}
	case "cut", "half":
		return meta, fmt.Errorf("list: %w", io.ErrUnexpectedEOF)
	}
	if p.next == "" {
		v.Position.answered(p.epoch)
	}
	return meta, nil
}

// Watch opens a watch or a streaming list, which ends with ctx.
func (v *View) Watch(ctx context.Context, o metav1.ListOptions) (*Stream, error) {
	r := RequestOf(o)
	r.Watch, r.Namespace = true, v.Namespace
	w, err := v.Server.watch(ctx, r, v.Server.faultOf(r, v.Fail), v.Position)
	if err != nil {
		return nil, err
	}
	return &Stream{view: v, ctx: ctx, w: w}, nil
}

// Next waits for a frame.
func (s *Stream) Next() (client.Frame, error) {
	f, err := s.w.next(s.ctx)
	switch {
	case err == nil:
		f.Object = s.view.lend(f.Object)
		return f, nil
	case errors.Is(err, errSilent):
		<-s.ctx.Done()
		err = context.Cause(s.ctx)
	case errors.Is(err, errHalf):
		err = io.ErrUnexpectedEOF
	case errors.Is(err, errGarbage):
		err = &kube.DecodeError{Offset: 7, Why: "no JSON"}
	}
	return client.Frame{}, fmt.Errorf("watch: %w", err)
}

// Ready reports whether Next returns a frame without waiting.
func (s *Stream) Ready() bool { return s.w.ready() }

// Close ends the stream.
func (s *Stream) Close() error {
	s.close.Do(s.w.close)
	return nil
}

// Position records which of the server's histories the state of a client is from. The
// histories are numbered as in [Server.ObjectsAt]. One goroutine may use it at a time.
type Position struct {
	Answered int  // the history of the last list or streaming list that was sent
	Known    int  // the history of the client's state
	Astray   bool // a watch continued in another history, which a client cannot notice
}

// Take records that the client has replaced its state by the last list. It reports whether
// the new state can be from another history than the old one.
func (p *Position) Take() (rewound bool) {
	rewound = p.Answered != p.Known || p.Astray
	p.Known, p.Astray = p.Answered, false
	return rewound
}

func (p *Position) answered(epoch int) {
	if p != nil {
		p.Answered = epoch
	}
}

// lostLocked reports whether a resource version is in a part of the history that was lost.
func (p *Position) lostLocked(s *Server, position int) bool {
	return p != nil && p.Known != len(s.epochs)-1 && position > s.sharedLocked(p.Known)
}

// followLocked records that a watch starts from the client's position.
func (p *Position) followLocked(s *Server, lost bool) {
	switch {
	case p == nil:
	case lost:
		p.Astray = true
	case !p.Astray:
		p.Known = len(s.epochs) - 1
	}
}
