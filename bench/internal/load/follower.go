package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Follower reads the frames of one watch. It is the writer of its body: it costs a
// search for the frame's end and a look at the two places where its stamp and its
// resourceVersion were in the frame before.
type Follower struct {
	// First and Keys are the keys it must see; any other is Foreign.
	First, Keys int
	// Until ends the watch: the resourceVersion after which there is no more. 0 is
	// never.
	Until uint64
	// Kind is what the objects of events must be; it is looked for in the first event.
	// Empty is any.
	Kind string
	// Initial ends the watch at the bookmark that ends the initial events.
	Initial bool
	// Binary says that the watch is in protobuf. It has no initial events then.
	Binary bool
	// Arrived gets each event and when it arrived, in nanoseconds since 1970; may be nil.
	Arrived func(s Stamp, now int64)

	next    []int64 // per key, the write that comes next; -1: any
	version uint64  // of the newest frame
	partial []byte  // a frame whose end has not come yet

	stampAt   int // where the stamp was, from the end of the frame
	versionAt int // where the resourceVersion was, from the beginning

	events   atomic.Int64
	position atomic.Int64 // sum of next
	verdict  Verdict
	Latency  Histogram // from the beginning of the write to the arrival
}

// Verdict counts what must not be.
type Verdict struct {
	Missing    int64 // writes that were skipped
	Repeated   int64 // writes that came again
	Disordered int64 // resourceVersions that did not rise
	Foreign    int64 // events of objects that were not selected
	Expired    int64 // watches refused with 410
	Cut        int64 // watches that the server ended
}

// Plus returns the sum of two verdicts.
func (v Verdict) Plus(o Verdict) Verdict {
	v.Missing += o.Missing
	v.Repeated += o.Repeated
	v.Disordered += o.Disordered
	v.Foreign += o.Foreign
	v.Expired += o.Expired
	v.Cut += o.Cut
	return v
}

// Faultless says that no event was lost, repeated, out of order or foreign. Cuts
// are no fault: the follower resumed.
func (v Verdict) Faultless() bool {
	return v.Missing == 0 && v.Repeated == 0 && v.Disordered == 0 && v.Foreign == 0
}

// String names the counts that are not zero.
func (v Verdict) String() string {
	var parts []string
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"missing", v.Missing},
		{"repeated", v.Repeated},
		{"disordered", v.Disordered},
		{"foreign", v.Foreign},
		{"expired", v.Expired},
		{"cut", v.Cut},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.name))
		}
	}
	if parts == nil {
		return "faultless"
	}
	return strings.Join(parts, ", ")
}

// errExpired is a watch whose resourceVersion is too old.
var errExpired = errors.New("the watch has expired")

// NewFollower returns a follower of the keys from first on, each of which has been
// written seq times before, or any number of times if seq is -1.
func NewFollower(first, keys int, seq int64) *Follower {
	f := &Follower{First: first, Keys: keys, next: make([]int64, keys)}
	for i := range f.next {
		f.next[i] = seq
	}
	f.position.Store(int64(keys) * max(seq, 0))
	return f
}

// From says which resourceVersion the watch begins after.
func (f *Follower) From(version uint64) { f.version = version }

// Events returns how many events have come.
func (f *Follower) Events() int64 { return f.events.Load() }

// Position returns the sum over all keys of the writes that are behind it.
func (f *Follower) Position() int64 { return f.position.Load() }

// Verdict returns what was wrong. Only after the watch has ended.
func (f *Follower) Verdict() Verdict { return f.verdict }

// Write reads a piece of the stream.
func (f *Follower) Write(p []byte) (int, error) {
	now, size := time.Now().UnixNano(), len(p)
	if f.Binary {
		return size, f.writeBinary(p, now)
	}
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			f.partial = append(f.partial, p...)
			return size, nil
		}
		frame := p[:end]
		if len(f.partial) > 0 {
			f.partial = append(f.partial, frame...)
			frame = f.partial
		}
		if err := f.frame(frame, now); err != nil {
			return size, err
		}
		f.partial = f.partial[:0]
		p = p[end+1:]
	}
}

const (
	frameStart = `{"type":"`
	endMark    = `"k8s.io/initial-events-end":"true"`
)

func (f *Follower) frame(frame []byte, now int64) error {
	if len(frame) <= len(frameStart) || string(frame[:len(frameStart)]) != frameStart {
		return fmt.Errorf("not a watch frame: %.200q", frame)
	}
	kind := frame[len(frameStart)]
	if kind == 'E' {
		if bytes.Contains(frame, []byte(`"code":410`)) {
			return errExpired
		}
		return fmt.Errorf("error frame: %.500q", frame)
	}
	version, err := f.readVersion(frame)
	if err != nil {
		return err
	}
	switch {
	case f.Initial: // the state comes in the order of keys
	case kind == 'B' && version < f.version, kind != 'B' && version <= f.version:
		f.verdict.Disordered++
	}
	f.version = max(f.version, version)
	if kind == 'B' {
		if f.Initial && bytes.Contains(frame, []byte(endMark)) {
			return wire.ErrStop
		}
		return nil
	}
	if f.events.Add(1) == 1 && f.Kind != "" && !bytes.Contains(frame, []byte(`"kind":"`+f.Kind+`"`)) {
		return fmt.Errorf("not an event of a %s: %.500q", f.Kind, frame)
	}
	if err := f.event(frame, now); err != nil {
		return err
	}
	if f.Until > 0 && version >= f.Until {
		return wire.ErrStop
	}
	return nil
}

func (f *Follower) event(frame []byte, now int64) error {
	at := len(frame) - f.stampAt
	if f.stampAt == 0 || at < 0 || string(frame[at:at+len(stampName)]) != stampName {
		if at = bytes.LastIndex(frame, []byte(stampName)); at < 0 {
			return fmt.Errorf("a frame without a stamp: %.2000q", frame)
		}
		f.stampAt = len(frame) - at
	}
	return f.stamped(frame[at+len(stampName):], now)
}

// stamped counts an event, of which text begins with the stamp and a quote.
func (f *Follower) stamped(text []byte, now int64) error {
	s, ok := parseStamp(text)
	if !ok {
		return fmt.Errorf("a frame with a bad stamp: %.2000q", text)
	}
	if f.Initial {
		return nil
	}
	f.Latency.Add(time.Duration(now - s.Sent))
	if f.Arrived != nil {
		f.Arrived(s, now)
	}
	i := s.Key - f.First
	if i < 0 || i >= f.Keys {
		f.verdict.Foreign++
		return nil
	}
	if f.next[i] < 0 {
		f.next[i] = s.Seq
	}
	if s.Seq < f.next[i] {
		f.verdict.Repeated++
		return nil
	}
	f.verdict.Missing += s.Seq - f.next[i]
	f.position.Add(s.Seq + 1 - f.next[i])
	f.next[i] = s.Seq + 1
	return nil
}

func (f *Follower) readVersion(frame []byte) (uint64, error) {
	at := f.versionAt
	if at == 0 || at+len(versionName) > len(frame) || string(frame[at:at+len(versionName)]) != versionName {
		if at = bytes.Index(frame, []byte(versionName)); at < 0 {
			return 0, fmt.Errorf("a frame without a resourceVersion: %.500q", frame)
		}
		f.versionAt = at
	}
	value, _, ok := bytes.Cut(frame[at+len(versionName):], []byte(`"`))
	version, err := strconv.ParseUint(string(value), 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("a frame with a bad resourceVersion: %.500q", frame)
	}
	return version, nil
}
