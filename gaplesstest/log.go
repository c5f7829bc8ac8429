package gaplesstest

import (
	"bytes"
	"log/slog"
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

// text returns the lines, and how many were dropped before them.
func (l *tail) text() (text string, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.Join(l.lines, nil)), l.dropped
}

func (l *tail) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
