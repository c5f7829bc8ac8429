package protobuf_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/protobuf"
	"github.com/gapless-io/gapless/internal/wire"
)

func object(t testing.TB, n, size int) *wire.Object {
	t.Helper()
	o, err := wire.ParseObject(fmt.Appendf(nil, `{"metadata":{"name":"a","resourceVersion":"%d"},"x":%q}`, n,
		strings.Repeat("x", size)), nil)
	if err != nil {
		t.Fatalf("parse the object: %v", err)
	}
	return o
}

// encoder makes messages and counts them.
type encoder struct{ made atomic.Int64 }

func (e *encoder) encode(size int) func() ([]byte, error) {
	return func() ([]byte, error) {
		e.made.Add(1)
		return make([]byte, size), nil
	}
}

func TestAMessageIsMadeOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c protobuf.Cache
		var e encoder
		o := object(t, 1, 10)
		var readers sync.WaitGroup
		for range 50 {
			readers.Go(func() {
				message, err := c.Event(o, protobuf.Whole, e.encode(7))
				if len(message) != 7 || err != nil {
					t.Errorf("%d bytes, %v", len(message), err)
				}
			})
		}
		readers.Wait()
		if _, err := c.State(o, protobuf.Whole, e.encode(7)); err != nil {
			t.Errorf("state: %v", err)
		}
		if n := e.made.Load(); n != 1 {
			t.Errorf("made %d times", n)
		}
		if len(c.Find(o, protobuf.Whole)) != 7 || c.Find(o, protobuf.Metadata) != nil ||
			c.Find(object(t, 1, 10), protobuf.Whole) != nil {
			t.Error("found for another object or form, or not found")
		}
		if m, err := c.Event(o, protobuf.Metadata, e.encode(3)); len(m) != 3 || err != nil {
			t.Errorf("%d bytes, %v", len(m), err)
		}
	})
}

func TestMessagesAreForgottenAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c protobuf.Cache
		var e encoder
		used, unused := object(t, 1, 10), object(t, 2, 10)
		for _, o := range []*wire.Object{used, unused} {
			_, _ = c.Event(o, protobuf.Whole, e.encode(7)) // it does not fail
		}
		for range 10 {
			<-time.After(30 * time.Second)
			c.Find(used, protobuf.Whole)
		}
		if c.Find(used, protobuf.Whole) == nil || c.Find(unused, protobuf.Whole) != nil {
			t.Error("a message that is used was forgotten, or another one kept")
		}
		<-time.After(3 * time.Minute)
		if c.Bytes() != 0 {
			t.Errorf("%d bytes are kept", c.Bytes())
		}
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		const large, most = 1 << 20, 64 << 20
		var c protobuf.Cache
		var e encoder
		state := make([]*wire.Object, 40) // of 2 MiB with their messages: 80 MiB
		read := func() int64 {
			before := e.made.Load()
			for i, o := range state {
				if state[i] == nil {
					o = object(t, i+1, large)
					state[i] = o
				}
				if m, err := c.State(o, protobuf.Whole, e.encode(large)); len(m) != large || err != nil {
					t.Fatalf("%d bytes, %v", len(m), err)
				}
				if c.Bytes() > most {
					t.Fatalf("%d bytes are kept", c.Bytes())
				}
			}
			return e.made.Load() - before
		}
		read()
		if again := read(); again > 20 {
			t.Errorf("%d of 40 messages are made again", again)
		}
		<-time.After(time.Second)
		hot := object(t, 1000, large)
		for i := range 100 { // events push out all of the state, but not what is in use
			_, _ = c.Event(hot, protobuf.Whole, e.encode(large))
			o := object(t, 2000+i, large)
			_, _ = c.Event(o, protobuf.Whole, e.encode(large))
			if c.Find(o, protobuf.Whole) == nil {
				t.Fatal("an event is not kept")
			}
			if c.Bytes() > most {
				t.Fatalf("%d bytes are kept", c.Bytes())
			}
			<-time.After(time.Second)
		}
		before := e.made.Load()
		if _, _ = c.Event(hot, protobuf.Whole, e.encode(large)); e.made.Load() != before {
			t.Error("what is in use was removed")
		}
	})
}

func TestErrorsAndPanicsReachEveryReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c protobuf.Cache
		broken := errors.New("broken")
		o, other := object(t, 1, 10), object(t, 2, 10)
		for range 2 {
			if _, err := c.Event(o, protobuf.Whole, func() ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_, _ = c.Event(other, protobuf.Whole, func() ([]byte, error) { panic("x") })
		}()
		if m, err := c.Event(other, protobuf.Whole, nil); m != nil || err == nil {
			t.Errorf("after a panic: %q, %v", m, err)
		}
		if c.Find(other, protobuf.Whole) != nil {
			t.Error("a message that was not made is found")
		}
	})
}
