package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// event renders a frame as a server does.
func event(version, key int, seq int64) string {
	body := Object{Namespace: "default", Name: fmt.Sprintf("o-%d", key), Version: fmt.Sprint(version)}.append(nil,
		Stamp{Key: key, Seq: seq})
	return `{"type":"MODIFIED","object":` + string(body) + "}\n"
}

const mark = `{"type":"BOOKMARK","object":{"kind":"Bench","metadata":{"resourceVersion":"%d",` +
	`"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"

func TestFollowerReportsMissingRepeatedAndDisorderedEvents(t *testing.T) {
	for _, tc := range []struct {
		name   string
		frames []string
		want   Verdict
		events int64
		behind int64 // its position
	}{
		{"nothing", []string{event(11, 0, 1), event(12, 1, 1), event(13, 0, 2), fmt.Sprintf(mark, 13)}, Verdict{}, 3, 5},
		{"a gap", []string{event(11, 0, 1), event(15, 0, 4)}, Verdict{Missing: 2}, 2, 6},
		{"a gap at the beginning", []string{event(11, 1, 2)}, Verdict{Missing: 1}, 1, 4},
		{"a repetition", []string{event(11, 0, 1), event(12, 0, 1)}, Verdict{Repeated: 1}, 2, 3},
		{"the same version twice", []string{event(11, 0, 1), event(11, 1, 1)}, Verdict{Disordered: 1}, 2, 4},
		{"disorder", []string{event(12, 1, 1), event(11, 0, 1)}, Verdict{Disordered: 1}, 2, 4},
		{"a bookmark from the past", []string{event(12, 1, 1), fmt.Sprintf(mark, 11)}, Verdict{Disordered: 1}, 1, 3},
		{"a stranger", []string{event(11, 2, 1)}, Verdict{Foreign: 1}, 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stream := strings.Join(tc.frames, "")
			for size := 1; size <= len(stream); size++ { // whatever the pieces
				f := NewFollower(0, 2, 1)
				f.From(10)
				for at := 0; at < len(stream); at += size {
					if _, err := f.Write([]byte(stream[at:min(at+size, len(stream))])); err != nil {
						t.Fatalf("write: %v", err)
					}
				}
				if f.Verdict() != tc.want || f.Events() != tc.events || f.Position() != tc.behind {
					t.Fatalf("in pieces of %d: %v, %d events, position %d; want %v, %d, %d",
						size, f.Verdict(), f.Events(), f.Position(), tc.want, tc.events, tc.behind)
				}
			}
			if tc.want.Faultless() != (tc.want == Verdict{}) {
				t.Errorf("faultless: %t", tc.want.Faultless())
			}
		})
	}
}

func TestFollowerEndsAtItsVersionBookmarkOrError(t *testing.T) {
	until := NewFollower(0, 1, 1)
	until.Until = 12
	initial := NewFollower(0, 1, -1)
	initial.Initial = true
	for _, tc := range []struct {
		name   string
		f      *Follower
		stream string
		want   error
		events int64
	}{
		{"at a version", until, event(11, 0, 1) + event(12, 0, 2) + event(13, 0, 3), wire.ErrStop, 2},
		{
			"after the initial events", initial, event(15, 0, 1) + event(11, 0, 7) + fmt.Sprintf(mark, 20) + event(21, 0, 8),
			wire.ErrStop, 2,
		},
		{"at a 410", NewFollower(0, 1, 1), `{"type":"ERROR","object":{"kind":"Status","code":410}}` + "\n", errExpired, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := tc.f.Write([]byte(tc.stream)); !errors.Is(err, tc.want) {
				t.Errorf("%v instead of %v", err, tc.want)
			}
			if tc.f.Events() != tc.events || !tc.f.Verdict().Faultless() {
				t.Errorf("%d events instead of %d, %v", tc.f.Events(), tc.events, tc.f.Verdict())
			}
		})
	}
	table := NewFollower(0, 1, 1)
	table.Kind = "Table"
	if _, err := table.Write([]byte(event(11, 0, 1))); err == nil {
		t.Error("an event of another kind than was asked for is taken")
	}
	for _, bad := range []string{
		`{"type":"ERROR","object":{"code":500}}`, `{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}`, "hello",
	} {
		if _, err := NewFollower(0, 1, 1).Write([]byte(bad + "\n")); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestStampsHaveTheSameLength(t *testing.T) {
	for _, s := range []Stamp{{0, 0, 0}, {99_999, 9_999_999_999, 1_790_000_000_000_000_000}, {7, 42, 5}} {
		text := s.String()
		if got, ok := parseStamp([]byte(text)); len(text) != stampBytes || !ok || got != s {
			t.Errorf("%+v: %q, %+v, %t", s, text, got, ok)
		}
	}
	for _, bad := range []string{"", strings.Repeat("1", stampBytes), "0000x-0000000000-0000000000000000000"} {
		if s, ok := parseStamp([]byte(bad)); ok {
			t.Errorf("%q is taken as %+v", bad, s)
		}
	}
}

func TestQuantilesAreAccurateToSixPercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, scale := range []time.Duration{50 * time.Microsecond, time.Millisecond, 3 * time.Second} {
		h := &Histogram{}
		half := &Histogram{}
		for range 100_000 {
			h.Add(time.Duration(r.Int64N(int64(scale))))
			half.Add(time.Duration(r.Int64N(int64(scale))))
		}
		h.Merge(half)
		for _, q := range []float64{0.5, 0.9, 0.99} {
			got, want := h.Quantile(q), time.Duration(q*float64(scale))
			if off := float64(got-want) / float64(want); off > 0.07 || off < -0.07 {
				t.Errorf("quantile %g up to %v is %v", q, scale, got)
			}
		}
	}
	if got := (&Histogram{}).Quantile(0.99); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// pages answers with one body after the other.
type pages struct {
	bodies []string
	paths  []string
}

func (p *pages) Do(r wire.Request, w io.Writer) (wire.Response, error) {
	body := p.bodies[min(len(p.paths), len(p.bodies)-1)]
	p.paths = append(p.paths, r.Path)
	for piece := range bytes.SplitSeq([]byte(body), []byte("}")) { // in small pieces
		if _, err := w.Write(append(bytes.Clone(piece), '}')); err != nil {
			return wire.Response{}, err
		}
	}
	return wire.Response{Status: 200, Bytes: int64(len(body))}, nil
}

func (*pages) Close() {}

func (*pages) Broken() bool { return false }

func item(name string, key int) string {
	text := string(Object{Namespace: "default", Name: name, Version: "7"}.append(nil, Stamp{Key: key}))
	return strings.Replace(text, `"metadata":{`, `"metadata":{"uid":"u",`, 1)
}

// page renders a list without its last brace, which pages adds.
func page(token string, items ...string) string {
	return fmt.Sprintf(`{"kind":"BenchList","items":[%s],"metadata":{"continue":%q,"resourceVersion":"9"}`,
		strings.Join(items, ","), token)
}

func TestReaderFollowsPagesAndChecksThem(t *testing.T) {
	three := []string{page("first", item("a", 1), item("b", 2)), page("second", item("c", 3)), page("", item("d", 4))}
	for _, tc := range []struct {
		name   string
		bodies []string
		want   int
		err    string
	}{
		{"all there", three, 4, ""},
		{"one twice", []string{three[0], three[0]}, 0, "listed twice"},
		{"one with another's content", []string{page("", strings.Replace(item("a", 1), "00001-", "00002-", 1))}, 0, "not whole"},
		{"one without its content", []string{page("", strings.Replace(item("a", 1), payload(1, 0), "", 1))}, 0, "not whole"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &Reader{Conn: &pages{bodies: tc.bodies}, List: List{Path: "/x", Limit: 2}}
			got, err := r.Verify()
			if got != tc.want && tc.err == "" || tc.err == "" && err != nil ||
				tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%d objects, %v; want %d, %q", got, err, tc.want, tc.err)
			}
		})
	}
	p := &pages{bodies: three}
	size, err := (&Reader{Conn: p, List: List{Path: "/x", Limit: 2}}).Read()
	if want := len(three[0]) + len(three[1]) + len(three[2]); err != nil || size != int64(want) {
		t.Errorf("read %d bytes, %v; want %d", size, err, want)
	}
	if got, want := strings.Join(p.paths, " "), "/x?limit=2 /x?continue=first&limit=2 /x?continue=second&limit=2"; got != want {
		t.Errorf("asked for %s; want %s", got, want)
	}
}
