package frames

import (
	"io"
	"net/http"
	"time"
)

// Throttle is a Body that passes at most Rate bytes a second on, in ten pieces a second.
type Throttle struct {
	Rate int
	// Pause waits; it reports whether the rest is to be sent at once.
	Pause func(time.Duration) (over bool)

	to io.Writer
}

// Open implements Body.
func (t *Throttle) Open(to io.Writer, _ http.Header, _ int) { t.to = to }

// Write implements Body.
func (t *Throttle) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return t.to.Write(p)
	}
	for done := 0; done < len(p); {
		size := min(len(p)-done, max(1, t.Rate/10))
		if t.Pause(time.Duration(size) * time.Second / time.Duration(t.Rate)) {
			size = len(p) - done
		}
		n, err := t.to.Write(p[done : done+size])
		if done += n; err != nil {
			return done, err
		}
	}
	return len(p), nil
}
