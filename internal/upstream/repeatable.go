package upstream

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

const (
	// keptBody bounds the body of one request that is kept: apiserver config.go MaxRequestBodyBytes, the
	// largest that an API server takes. keptBodies bounds all of them; those beyond are not kept.
	keptBody   = 3 << 20
	keptBodies = 64 << 20
	// bodyChunk is how much of a body is read at once, as by io.Copy.
	bodyChunk = 32 << 10
)

var (
	errClosedBody = errors.New("read of a body that is closed")
	// errNotKept says that the server did not take a request, which could be sent again if its body had
	// been kept.
	errNotKept = errors.New("it closed the connection before it took the request, whose body is too long to be sent again")
)

// repeatable is the body of a request that comes from a client and that can be sent again from its
// beginning, as long as all of it that was read is kept: a server that stops, or that balances its load
// (kube-apiserver --goaway-chance), says of requests under way that it did not take them, and a
// transport sends those again that have a http.Request.GetBody.
//
// A body is sent while it arrives. What sends it may end at any moment, also while the client is silent;
// the next one begins with what was kept and continues where that one was.
type repeatable struct {
	source io.ReadCloser
	chunk  []byte
	all    *atomic.Int64 // the bytes that are kept of all bodies

	// mu guards what follows.
	mu       sync.Mutex
	kept     []byte
	from     int64 // the position of kept in the body; 0 while it can be repeated
	counted  int64 // how many bytes of all are its own
	once     bool  // it cannot be repeated: it is too long, or it was answered
	answered bool
	err      error         // of the source
	reading  chan struct{} // closed when a Read of the source has ended; nil: there is none
	current  *sending
}

// sending is one attempt to send a body.
type sending struct {
	of   *repeatable
	at   int64         // how much it has sent; guarded by of.mu
	done chan struct{} // closed when it is closed, under of.mu
}

// repeat makes the body of a request that is sent to the server repeatable.
func (s *Server) repeat(r *http.Request) *repeatable {
	size := int64(bodyChunk)
	if r.ContentLength > 0 {
		size = min(size, r.ContentLength)
	}
	b := &repeatable{source: r.Body, chunk: make([]byte, size), all: &s.kept}
	b.current = &sending{of: b, done: make(chan struct{})}
	r.Body = b.current
	r.GetBody = b.again
	return b
}

// again is http.Request.GetBody. Errors: errNotKept.
func (b *repeatable) again() (io.ReadCloser, error) {
	_ = b.current.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.once {
		return nil, errNotKept
	}
	b.current = &sending{of: b, done: make(chan struct{})}
	return b.current, nil
}

// end is called when the server has answered, or has not: the body is not sent again. What sends it may go
// on. It returns the error with which the client's body ended early.
func (b *repeatable) end(unanswered bool) error {
	b.mu.Lock()
	b.answered = true
	b.onceLocked()
	err, current := b.err, b.current
	if unanswered {
		current.closeLocked()
	}
	closed := current.isClosed()
	if b.err != nil && current.at == b.from+int64(len(b.kept)) { // all is sent, and the answer may take hours
		b.kept, b.from = nil, current.at
	}
	b.mu.Unlock()
	if closed {
		_ = b.source.Close() // it was only read
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// onceLocked gives up to keep the body.
func (b *repeatable) onceLocked() {
	b.once = true
	b.all.Add(-b.counted)
	b.counted = 0
}

// Read implements io.Reader.
func (s *sending) Read(p []byte) (int, error) {
	for {
		n, wait, err := s.of.take(s, p)
		if wait == nil {
			return n, err
		}
		select {
		case <-wait:
		case <-s.done:
		}
	}
}

// take is Read without waiting: it returns what must be waited for, or nil.
func (b *repeatable) take(s *sending, p []byte) (n int, wait <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case s.isClosed():
		return 0, nil, errClosedBody
	case s.at < b.from+int64(len(b.kept)):
		n = copy(p, b.kept[s.at-b.from:])
		s.at += int64(n)
		if b.once && s.at == b.from+int64(len(b.kept)) {
			b.kept, b.from = b.kept[:0], s.at
		}
		return n, nil, nil
	case b.err != nil:
		return 0, nil, b.err
	}
	if b.reading == nil {
		b.reading = make(chan struct{})
		// It belongs to the request, and ends with the source's Read: when the client sends something,
		// or leaves, or the source is closed.
		go b.read(b.reading)
	}
	return 0, b.reading, nil
}

// read reads a part of the source.
func (b *repeatable) read(done chan<- struct{}) {
	n, err := b.source.Read(b.chunk)
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(done)
	b.reading = nil
	b.err = err
	b.kept = append(b.kept, b.chunk[:n]...)
	if b.once {
		return
	}
	b.counted += int64(n)
	if all := b.all.Add(int64(n)); len(b.kept) > keptBody || all > keptBodies {
		b.onceLocked()
	}
}

// Close ends a Read that waits. The source is closed with the last attempt.
func (s *sending) Close() error {
	b := s.of
	b.mu.Lock()
	s.closeLocked()
	last := b.answered && s == b.current
	b.mu.Unlock()
	if last {
		return b.source.Close()
	}
	return nil
}

func (s *sending) closeLocked() {
	if !s.isClosed() {
		close(s.done)
	}
}

func (s *sending) isClosed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
