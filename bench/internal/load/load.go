// Package load generates the load of the benchmarks and checks the answers: it counts the
// events of every stream and looks for gaps, repetitions and disorder.
//
// An [Object] is what is written, with one of several kinds of content. A [Stamp] is written
// into every object: its writer, the number of the write, and the time when it was sent. A
// [Follower] reads the frames of one watch and judges them. A [Crowd] is a set of followers
// and their connections. A [Writer] changes one object over and over. A [Reader] lists. A
// [Fleet] is a set of informers that hold next to nothing. A [Histogram] counts latencies.
package load

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
)

// Query adds parameters to a path.
func Query(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return path + "?" + q.Encode()
}

// Payloads are pieces of a pool of random hexadecimal digits, so that they compress
// as real content does (to a half) and not to nothing.
const (
	payloadBytes = 1 << 10
	poolBytes    = 1 << 20
	poolSeed     = 7
)

//nolint:gochecknoglobals // a table, computed once
var pool = sync.OnceValue(func() string {
	r := rand.New(rand.NewPCG(poolSeed, 0))
	b := make([]byte, poolBytes)
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return string(b)
})

// payload returns the content of a write: 1 KiB that differs from those of others.
func payload(key int, seq int64) string {
	at := (uint64(key)*7919 + uint64(seq)*104_729) % (poolBytes - payloadBytes)
	return pool()[at : at+payloadBytes]
}

// Stamp says which write an object's content is.
type Stamp struct {
	Key  int   // the writer or the shard, from 0 to 99999
	Seq  int64 // his first write is 0
	Sent int64 // when he began to send it, in nanoseconds since 1970
}

// A stamp is "KKKKK-SSSSSSSSSS-NNNNNNNNNNNNNNNNNNN": always of one length, so that it
// is found at the same distance from a frame's end.
const (
	stampBytes = 5 + 1 + 10 + 1 + 19
	stampName  = `"stamp":"`
)

// String renders it.
func (s Stamp) String() string {
	b := digits(make([]byte, 0, stampBytes), int64(s.Key), 5)
	b = digits(append(b, '-'), s.Seq, 10)
	return string(digits(append(b, '-'), s.Sent, 19))
}

func digits(b []byte, v int64, width int) []byte {
	var buf [20]byte
	text := strconv.AppendInt(buf[:0], v, 10)
	for range width - len(text) {
		b = append(b, '0')
	}
	return append(b, text...)
}

func parseStamp(b []byte) (Stamp, bool) {
	if len(b) < stampBytes || b[5] != '-' || b[16] != '-' {
		return Stamp{}, false
	}
	key, ok1 := number(b[:5])
	seq, ok2 := number(b[6:16])
	sent, ok3 := number(b[17:stampBytes])
	return Stamp{Key: int(key), Seq: seq, Sent: sent}, ok1 && ok2 && ok3
}

func number(b []byte) (int64, bool) {
	var v int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, len(b) > 0
}

// Version reads the first resourceVersion in the JSON of an object or a list.
func Version(body []byte) string {
	_, rest, ok := bytes.Cut(body, []byte(versionName))
	value, _, closed := bytes.Cut(rest, []byte(`"`))
	if !ok || !closed {
		return ""
	}
	return string(value)
}

const versionName = `"resourceVersion":"`

// InParallel calls fn(ctx, worker, 0) … fn(ctx, worker, n-1) from the given number of
// goroutines and returns the first error, which ends the others.
func InParallel(ctx context.Context, workers, n int, fn func(ctx context.Context, worker, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := fn(ctx, w, int(i)); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
