package gaplesstest

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"sync"
)

// maxLogBytes is how much of the server's log is kept for a test that fails: the newest
// requests, and what the server said about itself.
const maxLogBytes = 64 << 10

// tail keeps the end of a log. It is safe for concurrent use.
type tail struct {
	mu      sync.Mutex
	lines   [][]byte
	bytes   int
	dropped int // lines
}

// Write implements io.Writer. It gets one line.
func (l *tail) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, bytes.Clone(line))
	for l.bytes += len(line); l.bytes > maxLogBytes && len(l.lines) > 1; l.dropped++ {
		l.bytes -= len(l.lines[0])
		l.lines = l.lines[1:]
	}
	return len(line), nil
}

// folded is lines that differ only in numbers, such as the same request again and again.
type folded struct {
	last  string // the newest of them, without the time
	times int
}

// differs is what lines that are folded may differ in: when they were written, what is of one
// request only, and numbers other than the code of an answer.
var differs = regexp.MustCompile(`^time=\S+ |audit_id=\S+|latency=\S+|(resp=\d+)|\d+`)

// newest returns at most so many lines, the newest first, and how many others there were. Lines
// that differ only in numbers are one.
func (l *tail) newest(most int) (all []folded, others int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := map[string]int{}
	for _, line := range slices.Backward(l.lines) {
		key := string(differs.ReplaceAll(line, []byte("$1")))
		at, is := place[key]
		switch {
		case is:
			all[at].times++
		case len(all) == most:
			others++
		default:
			place[key] = len(all)
			text := bytes.TrimRight(line, "\n")
			if _, after, timed := bytes.Cut(text, []byte(" ")); timed && bytes.HasPrefix(text, []byte("time=")) {
				text = after
			}
			all = append(all, folded{last: string(text), times: 1})
		}
	}
	return all, others + l.dropped
}

func (l *tail) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
