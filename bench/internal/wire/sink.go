package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Sink keeps many HTTP/1.1 streams open, each on a connection of its own, and drops what
// comes: the kernel discards it, and nothing is decrypted. Thousands of them cost a system
// call each in every interval, whatever comes. It works on Linux.
type Sink struct {
	target Target
	stop   chan struct{}
	joined sync.WaitGroup

	ended atomic.Int64

	// mu guards streams.
	mu      sync.Mutex
	streams []*dropped
}

// dropped is one stream of a sink.
type dropped struct {
	fd    *socket
	bytes atomic.Int64 // what has come, encrypted
	over  bool         // the sink's goroutine owns it
}

// NewSink starts the goroutine that reads all streams once in every interval. It ends with
// Close.
func NewSink(t Target, every time.Duration) *Sink {
	s := &Sink{target: t, stop: make(chan struct{})}
	s.joined.Go(func() { s.run(every) })
	return s
}

// Open connects, sends the request and waits for the header of its answer, which must be a
// 2xx and chunked.
func (s *Sink) Open(ctx context.Context, r Request) error {
	fd, err := dialSocket(s.target.Address)
	if err != nil {
		return err
	}
	conn, err := s.target.handshake(ctx, fd, HTTP1)
	if err != nil {
		return err
	}
	if _, err = newSequential(conn, s.target).begin(r); err == nil {
		err = fd.pollable()
	}
	if err != nil {
		_ = fd.Close() // it is given up
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = append(s.streams, &dropped{fd: fd})
	return nil
}

// Least returns how many bytes have come at least over each connection, TLS included, and Total
// how many over all.
func (s *Sink) Least() (least, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range s.streams {
		n := d.bytes.Load()
		total += n
		if i == 0 || n < least {
			least = n
		}
	}
	return least, total
}

// Ended returns how many streams the server has ended.
func (s *Sink) Ended() int64 { return s.ended.Load() }

// Close ends all streams.
func (s *Sink) Close() {
	close(s.stop)
	s.joined.Wait()
	for _, d := range s.streams {
		_ = d.fd.Close() // it is given up
	}
}

func (s *Sink) run(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		all := s.streams
		s.mu.Unlock()
		for _, d := range all {
			if d.over {
				continue
			}
			if err := d.drop(); err != nil {
				d.over = true
				s.ended.Add(1)
			}
		}
	}
}

// dropBytes is the most that is discarded by one call.
const dropBytes = 1 << 20

// errEnded is a stream that the server has ended.
var errEnded = errors.New("the stream has ended")

// drop discards what has come.
func (d *dropped) drop() error {
	for {
		// With MSG_TRUNC the kernel discards what it would copy (tcp(7)).
		n, _, errno := syscall.Syscall6(syscall.SYS_RECVFROM, uintptr(d.fd.fd), 0, dropBytes,
			syscall.MSG_TRUNC|syscall.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == syscall.EAGAIN:
			return nil
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("discard: %w", os.NewSyscallError("recvfrom", errno))
		case n == 0:
			return errEnded
		}
		d.bytes.Add(int64(n)) //nolint:gosec // at most dropBytes
		if n < dropBytes {
			return nil
		}
	}
}
