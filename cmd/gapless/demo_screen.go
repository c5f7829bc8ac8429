package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// The demo's columns, of 80.
const (
	writerWidth = 22 // to the right
	gapWidth    = 4
	viewWidth   = 27 // of each of the two watchers
)

const (
	// stepTime is how long the changes of a step take on a terminal.
	stepTime = 1200 * time.Millisecond
	// redrawEvery is the time between two states of the counters, on a terminal.
	redrawEvery = 50 * time.Millisecond
)

// The colors of ECMA-48, 8.3.117.
const (
	uncolored = ""
	bold      = "1"
	red       = "31"
	green     = "32"
	yellow    = "33"
)

// screen shows the demo: in columns, and on a terminal with colors and with counters
// that move.
type screen struct {
	out    io.Writer
	live   bool // counters are drawn again in place
	colors bool
	stop   func() // ends the counters of the step
}

func newScreen(out io.Writer) *screen {
	f, is := out.(interface{ Fd() uintptr })
	live := is && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
	return &screen{out: out, live: live, colors: live && os.Getenv("NO_COLOR") == "", stop: func() {}} // https://no-color.org
}

// result is what the demo prints for one of the watchers.
type result struct{ text, color string }

func good(text string) result { return result{text, green} }
func bad(text string) result  { return result{text, red} }

// counts are the numbers of a step.
type counts struct{ changes, naive, informer int }

// pace is the time from one change to the next.
func (s *screen) pace(changes int) time.Duration {
	if !s.live {
		return 0
	}
	return stepTime / time.Duration(changes)
}

// printf writes. When the reader of the output has gone, pipe ends the command.
func (s *screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

func (s *screen) color(text, color string) string {
	if !s.colors || color == uncolored || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func (s *screen) begin(took time.Duration, url string) {
	s.printf("An API server has started in this process in %d ms, at %s.\n", took.Milliseconds(), url)
	s.printf("A writer changes ConfigMaps there, and two clients watch them.\n\n")
	s.printf("%s\n", s.row("writer", result{"naive watcher", bold}, result{"informer", bold}))
}

// row is a line of the three columns. Padding comes first, because colors have no width.
func (s *screen) row(writer string, naive, informer result) string {
	left := fmt.Sprintf("%*s%*s", writerWidth, writer, gapWidth, "")
	return left + s.color(fmt.Sprintf("%-*s", viewWidth, naive.text), naive.color) + s.color(informer.text, informer.color)
}

func (s *screen) title(of string) { s.printf("%s\n", s.color(of, bold)) }

// step begins a step: on a terminal it redraws the counters until end or close.
func (s *screen) step(title string, now func() counts) {
	s.title(title)
	if s.live {
		s.stop = s.count(now)
	}
}

func (s *screen) counters(c counts) string {
	return s.row(fmt.Sprintf("%d changes", c.changes), events(c.naive), events(c.informer))
}

func events(n int) result { return result{fmt.Sprintf("%d events", n), uncolored} }

// count draws the counters until the returned function is called.
func (s *screen) count(now func() counts) (stop func()) {
	end := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() { // ends with stop, which waits for it
		tick := time.NewTicker(redrawEvery)
		defer tick.Stop()
		for {
			s.printf("\r%s\x1b[K", s.counters(now())) // the rest of the line is erased
			select {
			case <-tick.C:
			case <-end:
				s.printf("\r\x1b[K")
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(end)
		drawing.Wait()
	})
}

// close ends the counters of a step that failed.
func (s *screen) close() { s.stop() }

// end shows the numbers of a step, and the result of each watcher.
func (s *screen) end(c counts, naive, informer result) {
	s.stop()
	s.printf("%s\n%s\n", s.counters(c), s.row("", naive, informer))
}

// note shows the error that ended the naive watch.
func (s *screen) note(err error) {
	s.printf("  The naive watcher received:\n%s\n", s.color("  "+strings.TrimSpace(err.Error()), yellow))
}

// explain says what is counted as wrong: that can be more than the objects there are.
func (s *screen) explain(wrong int) {
	if wrong > 0 {
		s.printf(
			"  Wrong are objects of which the naive watcher has an older state, those that it lacks, and those that it still " +
				"has\n  although they were deleted.\n")
	}
}

func (s *screen) final(objects int, naive, informer result) {
	s.printf("%s\n", s.row(fmt.Sprintf("%d objects", objects), naive, informer))
}
