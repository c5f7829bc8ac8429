// Package progress shows people how far an operation is that may take long: as a bar on a terminal, as lines elsewhere,
// and not at all if they have asked for quiet or if it is done within two seconds.
//
// A [Meter] is one operation, or one step of it.
package progress

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	// patience is how long an operation may take before it is shown.
	patience = 2 * time.Second
	// redraw is the time between two states of a bar.
	redraw = 200 * time.Millisecond
	// between is the least time between two lines. The next one is written after a tenth of the operation, or after
	// atLeast if that takes longer.
	between, atLeast = 2 * time.Second, 30 * time.Second
)

// Unit is what an operation counts.
type Unit int

// The units.
const (
	Objects Unit = iota
	Bytes
	Seconds // nothing is counted: only the time that it takes is shown
)

// Meter shows how far one operation is. Its methods are for one goroutine.
type Meter struct {
	to       io.Writer
	what     string
	unit     Unit
	terminal bool

	began, shown time.Time
	part         float64 // that the last line has said was done
	bar          *progressbar.ProgressBar
	of           int64 // of bar
}

// New returns a Meter that writes to where people read messages, which is standard error, or io.Discard if they want none.
// what is a participle: "checked".
func New(to io.Writer, what string, unit Unit) *Meter {
	f, is := to.(interface{ Fd() uintptr })
	return &Meter{to: to, what: what, unit: unit, terminal: is && term.IsTerminal(int(f.Fd())), began: time.Now()}
}

// Set says that done of of units are done; of is 0 if nobody knows how many there are. It may be called often.
func (m *Meter) Set(done, of int64) {
	now := time.Now()
	if now.Sub(m.began) < patience {
		return
	}
	if m.terminal {
		m.draw(now, done, of)
		return
	}
	part := 0.0
	if of > 0 {
		part = float64(done) / float64(of)
	}
	wait := atLeast
	if m.shown.IsZero() || part >= m.part+0.1 {
		wait = between
	}
	if !m.shown.IsZero() && now.Sub(m.shown) < wait {
		return
	}
	m.shown, m.part = now, part
	_, _ = fmt.Fprintln(m.to, m.line(now, done, of)) // nobody reads, then
}

// End ends a bar. What is written afterwards begins on a line of its own.
func (m *Meter) End() {
	if m.bar != nil {
		_ = m.bar.Exit() // as above
		_, _ = fmt.Fprintln(m.to)
		m.bar = nil
	}
}

// line is what is written where there is no terminal: "checked 1.5 GiB of 3.0 GiB (50%), 12s left".
func (m *Meter) line(now time.Time, done, of int64) string {
	took := now.Sub(m.began)
	switch {
	case m.unit == Seconds:
		return fmt.Sprintf("%s for %v", m.what, took.Round(time.Second))
	case of <= 0:
		return fmt.Sprintf("%s %s", m.what, m.count(done))
	}
	text := fmt.Sprintf("%s %s of %s (%d%%)", m.what, m.count(done), m.count(of), 100*done/of)
	if done > 0 && done < of {
		left := time.Duration(float64(took) * float64(of-done) / float64(done))
		text += fmt.Sprintf(", about %v left", max(left.Round(time.Second), time.Second))
	}
	return text
}

// count formats a number of units.
func (m *Meter) count(n int64) string {
	if m.unit != Bytes {
		return fmt.Sprint(n)
	}
	value, unit := float64(n), 0
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 || value >= 10 {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// draw draws the bar.
func (m *Meter) draw(now time.Time, done, of int64) {
	if now.Sub(m.shown) < redraw {
		return
	}
	m.shown = now
	if m.bar == nil || m.of != of && (m.of <= 0) != (of <= 0) {
		m.bar = m.newBar(of)
	} else if of != m.of {
		m.bar.ChangeMax64(of)
	}
	m.of = of
	if m.unit == Seconds {
		_ = m.bar.Add64(1) // it draws the time that has passed
		return
	}
	if of > 0 { // a bar that is full is at its end, and shows nothing after that
		done = min(done, of-1)
	}
	_ = m.bar.Set64(done) // nobody reads, then
}

// newBar makes the bar, or what turns if nobody knows how many units there are.
func (m *Meter) newBar(of int64) *progressbar.ProgressBar {
	known := of > 0
	if !known {
		of = -1
	}
	bar := progressbar.NewOptions64(of,
		progressbar.OptionSetWriter(m.to), progressbar.OptionSetDescription(m.what), progressbar.OptionFullWidth(),
		progressbar.OptionShowBytes(m.unit == Bytes), progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(known), progressbar.OptionSetElapsedTime(true),
		// Without an interval, which a goroutine would keep that nothing ends, it turns with each call.
		progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSpinnerType(14),
		progressbar.OptionUseANSICodes(true),
	)
	if m.unit != Seconds {
		progressbar.OptionShowCount()(bar)
	}
	return bar
}
