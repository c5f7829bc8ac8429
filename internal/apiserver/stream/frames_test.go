package stream_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/apiserver/stream"
)

const (
	text  = 0x1
	bin   = 0x2
	bye   = 0x8
	ping  = 0x9
	pong  = 0xA
	final = 0x80
)

// masked is a frame as a client sends it; first is its first byte.
func masked(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, final|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, final|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, final|127), uint64(n))
	}
	mask := [4]byte{1, 2, 3, 0xF0}
	b = append(b, mask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return b
}

// frame is one that a server has sent.
type frame struct {
	op      byte
	payload string
}

// String is "text one\n", "pong x" or "close 1000".
func (f frame) String() string {
	switch {
	case f.op == bye && len(f.payload) >= 2:
		return fmt.Sprintf("close %d%s", binary.BigEndian.Uint16([]byte(f.payload)), f.payload[2:])
	case f.op == bye:
		return "close"
	}
	return map[byte]string{text: "text ", ping: "ping ", pong: "pong "}[f.op] + f.payload
}

// readFrame reads what a server may send, and nothing else: whole messages of text
// in one frame each, and control frames.
func readFrame(from io.Reader) (frame, error) {
	var h [10]byte
	if _, err := io.ReadFull(from, h[:2]); err != nil {
		return frame{}, err
	}
	f := frame{op: h[0] & 0xF}
	size := uint64(h[1])
	if h[0]&0xF0 != final || !bytes.Contains([]byte{text, bye, ping, pong}, []byte{f.op}) || size >= final {
		return frame{}, fmt.Errorf("a frame begins with %x", h[:2])
	}
	if more := map[uint64]int{126: 2, 127: 8}[size]; more > 0 {
		if _, err := io.ReadFull(from, h[2:2+more]); err != nil {
			return frame{}, fmt.Errorf("length: %w", err)
		}
		size = binary.BigEndian.Uint64(append(make([]byte, 8-more), h[2:2+more]...))
		if f.op != text || more == 2 && size < 126 || more == 8 && size < 1<<16 {
			return frame{}, fmt.Errorf("a length of %d in %d bytes", size, more)
		}
	}
	payload := make([]byte, size)
	if n, err := io.ReadFull(from, payload); err != nil {
		return frame{}, fmt.Errorf("%d of %d bytes: %w", n, size, err)
	}
	f.payload = string(payload)
	return f, nil
}

// talk is a WebSocket in memory, in a bubble.
type talk struct {
	t    testing.TB
	conn net.Conn
	sink *gone
	wg   sync.WaitGroup

	mu sync.Mutex
	// mu guards heard and err.
	heard []string // with the time: "30s ping "
	err   error
}

// upgrade opens one; everything that the server sends is heard, if listen says so.
func upgrade(t testing.TB, listen bool) *talk {
	t.Helper()
	client, server := net.Pipe()
	k := &talk{t: t, conn: client}
	t.Cleanup(func() {
		_ = client.Close()
		k.wg.Wait()
	})
	k.sink = onPipe(t, client, server, func(w http.ResponseWriter, left func()) (stream.Sink, error) {
		return stream.Upgrade(w, handshake(), stream.Text, left)
	})
	if listen {
		k.listen()
	}
	return k
}

func handshake() *http.Request {
	return &http.Request{ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}}
}

func (k *talk) listen() {
	began := time.Now()
	k.wg.Go(func() { // ends with the connection
		for from := bufio.NewReader(k.conn); ; {
			f, err := readFrame(from)
			k.mu.Lock()
			if err != nil {
				k.err = err
				k.mu.Unlock()
				return
			}
			k.heard = append(k.heard, time.Since(began).String()+" "+f.String())
			k.mu.Unlock()
		}
	})
}

// say sends frames; they may block until the server takes them.
func (k *talk) say(frames ...[]byte) {
	k.wg.Go(func() { _, _ = k.conn.Write(bytes.Join(frames, nil)) }) // the server may have ended it
}

func (k *talk) want(lines ...string) {
	k.t.Helper()
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if diff := cmp.Diff(lines, k.heard); diff != "" {
		k.t.Error(diff)
	}
}

// ended fails unless the server has closed the connection between two frames.
func (k *talk) ended() {
	k.t.Helper()
	k.wg.Wait()
	if !errors.Is(k.err, io.EOF) {
		k.t.Errorf("the connection ended with %v", k.err)
	}
}

func TestEachLineIsOneFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := upgrade(t, true)
		want := []string{"0s text a\n"}
		put(t, k.sink, "a\n")
		for _, size := range []int{125, 126, 1 << 16, piece - 10, piece, piece + 1, 3 << 20} {
			line := strings.Repeat("x", size-1) + "\n"
			put(t, k.sink, "before\n", line, "after\n")
			want = append(want, "0s text before\n", "0s text "+line, "0s text after\n")
		}
		k.sink.End(stream.Done)
		k.ended()
		k.want(append(want, "0s close 1000")...)
	})
}

func TestQueuedMessagesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := upgrade(t, false)
		k.wg.Go(func() { // ends when it is read
			for _, line := range []string{"one\n", "two\n", "three\n"} {
				_ = k.sink.Put([]byte(line), nil, nil) // the read below tells
			}
			_ = k.sink.Flush()
		})
		b := make([]byte, 100)
		n, err := k.conn.Read(b)
		if want := "\x81\x04one\n\x81\x04two\n\x81\x06three\n"; string(b[:n]) != want || err != nil {
			t.Errorf("one write has %q, %v; want %q", b[:n], err, want)
		}
		_ = k.conn.Close()
		k.sink.End(stream.Done)
	})
}

func TestCloseFrameHasItsCodeAndWaitsASecondForTheReply(t *testing.T) {
	for e, code := range map[stream.Ending]string{stream.Done: "1000", stream.Shutdown: "1001", stream.Broken: "1011"} {
		synctest.Test(t, func(t *testing.T) {
			k := upgrade(t, true)
			began := time.Now()
			k.wg.Go(func() { k.sink.End(e) })
			k.want("0s close " + code)
			k.say(masked(final|bye, "\x03\xe8"))
			k.ended()
			if took := time.Since(began); took != 0 {
				t.Errorf("an end that was answered took %v", took)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			k := upgrade(t, true)
			began := time.Now()
			k.sink.End(e)
			if took := time.Since(began); took != time.Second {
				t.Errorf("an end that was not answered took %v", took)
			}
			k.ended()
		})
	}
}

func TestClientFramesAreAnsweredOrIgnored(t *testing.T) {
	for _, c := range []struct {
		name  string
		say   [][]byte
		want  []string
		leave bool
	}{
		{"ping", [][]byte{masked(final|ping, "are you there?")}, []string{"0s pong are you there?"}, false},
		{"empty ping", [][]byte{masked(final|ping, "")}, []string{"0s pong "}, false},
		{
			"longest ping",
			[][]byte{masked(final|ping, strings.Repeat("p", 125))},
			[]string{"0s pong " + strings.Repeat("p", 125)},
			false,
		},
		{"pong that nobody asked for", [][]byte{masked(final|pong, "x")}, nil, false},
		{
			"messages",
			[][]byte{masked(final|text, "hello"), masked(final|bin, strings.Repeat("x", 1000)), masked(final|text, "")},
			nil,
			false,
		},
		{
			"a message in parts with a ping between",
			[][]byte{masked(text, "hel"), masked(final|ping, "1"), masked(0, "l"), masked(final, "o"), masked(final|ping, "2")},
			[]string{"0s pong 1", "0s pong 2"},
			false,
		},
		{
			"a large message within the bound",
			[][]byte{masked(final|bin, strings.Repeat("x", 60<<10)), masked(final|ping, "1")},
			[]string{"0s pong 1"},
			false,
		},
		{
			"too much",
			[][]byte{masked(final|bin, strings.Repeat("x", 60<<10)), masked(final|bin, strings.Repeat("x", 6<<10))},
			[]string{"0s close 1008"},
			true,
		},
		{"close", [][]byte{masked(final|bye, "\x03\xe9going away")}, []string{"0s close 1001"}, true},
		{"close without a code", [][]byte{masked(final|bye, "")}, []string{"0s close"}, true},
		{"close with half a code", [][]byte{masked(final|bye, "\x03")}, []string{"0s close 1002"}, true},
		{"close with a code that is never sent", [][]byte{masked(final|bye, "\x03\xee")}, []string{"0s close 1002"}, true},
		{"not masked", [][]byte{{final | text, 1, 'x'}}, []string{"0s close 1002"}, true},
		{"compressed, which was not agreed on", [][]byte{masked(final|0x40|text, "x")}, []string{"0s close 1002"}, true},
		{"unknown", [][]byte{masked(final|0x3, "x")}, []string{"0s close 1002"}, true},
		{"ping in parts", [][]byte{masked(ping, "x")}, []string{"0s close 1002"}, true},
		{"ping that is too long", [][]byte{masked(final|ping, strings.Repeat("p", 126))}, []string{"0s close 1002"}, true},
		{"continuation of nothing", [][]byte{masked(final, "x")}, []string{"0s close 1002"}, true},
		{"message in a message", [][]byte{masked(text, "x"), masked(final|text, "x")}, []string{"0s close 1002"}, true},
		{
			"a length of 2^64-1",
			[][]byte{append([]byte{final | text, final | 127}, bytes.Repeat([]byte{0xff}, 12)...)},
			[]string{"0s close 1008"},
			true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := upgrade(t, true)
				k.say(c.say...)
				k.want(c.want...)
				if left := k.sink.hasLeft(); left != c.leave {
					t.Errorf("left: %v, want %v", left, c.leave)
				}
				if !c.leave {
					put(t, k.sink, "goes on\n")
					k.want(append(c.want, "0s text goes on\n")...)
				} else if err := errors.Join(k.sink.Put([]byte("x"), nil, nil), k.sink.Flush()); err == nil {
					t.Error("a message after the Close")
				}
				k.sink.End(stream.Done)
				k.ended()
			})
		})
	}
}

func TestServerPingsAnIdleClientAndDropsADeadOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := upgrade(t, true)
		var want []string
		for i := range 20 {
			<-time.After(30*time.Second - time.Duration(min(i, 1))*time.Millisecond)
			synctest.Wait()
			want = append(want, fmt.Sprintf("%v ping ", time.Duration(i+1)*30*time.Second))
			<-time.After(time.Millisecond)
			k.say(masked(final|pong, ""))
		}
		k.want(want...)
		if k.sink.hasLeft() {
			t.Error("a client that answers was dropped")
		}
		k.sink.End(stream.Done)
	})
	synctest.Test(t, func(t *testing.T) {
		k := upgrade(t, true)
		began := time.Now()
		<-k.sink.left
		if took := time.Since(began); took != time.Minute {
			t.Errorf("a client that does not answer was dropped after %v", took)
		}
		k.want("30s ping ")
		k.sink.End(stream.Done)
		k.ended()
	})
}

func TestBusyClientIsNotPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := upgrade(t, true)
		var want []string
		for i := range 30 {
			<-time.After(10*time.Second + time.Millisecond)
			put(t, k.sink, "x\n")
			want = append(want, fmt.Sprintf("%v text x\n", time.Duration(i+1)*(10*time.Second+time.Millisecond)))
		}
		k.want(want...)
		k.sink.End(stream.Done)
	})
}

func TestStalledClientIsKeptWhileItPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := upgrade(t, false)
		k.sink.Limit(time.Now().Add(time.Hour))
		line := strings.Repeat("x", 100<<10) + "\n"
		k.wg.Go(func() {
			if err := errors.Join(k.sink.Put(nil, []byte(line), nil), k.sink.Put([]byte("next\n"), nil, nil),
				k.sink.Flush()); err != nil {
				t.Errorf("put: %v", err)
			}
		})
		var pings []byte
		for range 10 {
			pings = append(pings, masked(final|ping, "x")...)
		}
		k.say(pings)
		<-time.After(10 * time.Minute)
		if k.sink.hasLeft() {
			t.Fatal("cut off")
		}
		k.listen()
		synctest.Wait()
		var texts, pongs int
		for _, heard := range k.heard {
			switch {
			case heard == "0s text "+line, heard == "0s text next\n":
				texts++
			case strings.HasPrefix(heard, "0s pong "):
				pongs++
			default:
				t.Errorf("heard %.40q", heard)
			}
		}
		if texts != 2 || pongs != 10 {
			t.Errorf("%d messages and %d pongs", texts, pongs)
		}
		k.sink.End(stream.Done)
	})
}

func TestStalledClientIsDroppedAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := upgrade(t, false)
		began := time.Now()
		k.sink.Limit(began.Add(time.Minute))
		k.say(masked(final|ping, "x"))
		if err := k.sink.Put(make([]byte, piece), nil, nil); err == nil {
			t.Error("a write that nobody takes has succeeded")
		}
		k.sink.End(stream.Done)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("ended after %v", took)
		}
	})
}

// FuzzClientFrames sends arbitrary bytes to a WebSocket: the watch continues or ends,
// every ping is answered as it should be, what the server sends is well formed, and
// nothing is left over (a bubble ends with its last goroutine).
func FuzzClientFrames(f *testing.F) {
	f.Add(masked(final|ping, "x"))
	f.Add(masked(final|bye, "\x03\xe8"))
	f.Add(bytes.Join([][]byte{masked(text, "a"), masked(final|ping, "b"), masked(final, "c"), masked(final|pong, "")}, nil))
	f.Add([]byte{final | text, 1, 'x'})
	f.Add(append([]byte{final | bin, final | 127}, bytes.Repeat([]byte{0xff}, 12)...))
	f.Add(append([]byte{final | text, final | 126, 1, 0, 1, 2, 3, 4}, make([]byte, 256)...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		synctest.Test(t, func(t *testing.T) {
			k := upgrade(t, true)
			k.say(sent)
			synctest.Wait()
			want, ends := judge(sent)
			if left := k.sink.hasLeft(); left != ends {
				t.Errorf("left: %v, want %v", left, ends)
			}
			if !ends {
				put(t, k.sink, "goes on\n")
				want = append(want, "0s text goes on\n")
			}
			k.sink.End(stream.Done)
			k.ended()
			if !ends {
				want = append(want, "0s close 1000")
			}
			k.want(want...)
		})
	})
}

// judge says what a server hears of a client's bytes: the answers, and whether the
// conversation has ended. It reads them in another way than the server does.
func judge(sent []byte) (answers []string, ends bool) {
	for within, ignored := false, uint64(0); ; {
		if len(sent) < 2 {
			return answers, false
		}
		fin, op, size := sent[0]&final != 0, sent[0]&0xF, uint64(sent[1]&0x7F)
		control, known := op >= 8, op <= 2 || op >= 8 && op <= 10
		if sent[0]&0x70 != 0 || sent[1]&final == 0 || !known || control && (!fin || size > 125) ||
			!control && within != (op == 0) {
			return append(answers, "0s close 1002"), true
		}
		at := map[uint64]int{126: 4, 127: 10}[size]
		at = max(at, 2)
		if len(sent) < at+4 {
			return answers, false
		}
		if at > 2 {
			size = binary.BigEndian.Uint64(append(make([]byte, 10-at), sent[2:at]...))
		}
		if !control {
			within = !fin
			if size >= 64<<10-ignored {
				return append(answers, "0s close 1008"), true
			}
			ignored += size + 1
		}
		mask, payload := sent[at:at+4], sent[at+4:]
		if uint64(len(payload)) < size {
			return answers, false
		}
		sent = payload[size:]
		payload = bytes.Clone(payload[:size])
		for i := range payload {
			payload[i] ^= mask[i%4]
		}
		switch code := append(payload, 0, 0); {
		case op == ping:
			answers = append(answers, "0s pong "+string(payload))
		case op == bye && size == 0:
			return append(answers, "0s close"), true
		case op == bye:
			n := binary.BigEndian.Uint16(code)
			if size == 1 || n < 1000 || n > 4999 || n > 1014 && n < 3000 || n >= 1004 && n <= 1006 {
				n = 1002
			}
			return append(answers, fmt.Sprintf("0s close %d", n)), true
		}
	}
}
