package progress

import (
	"io"
	"time"
)

// Wait shows how long do takes already, of which nothing else is known, and returns what it returns.
func Wait(to io.Writer, what string, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }() // ends with do, for which Wait waits
	m := New(to, what, Seconds)
	defer m.End()
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			m.Set(0, 0)
		}
	}
}
