package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

const livePath = "/live"

// liveEvery is how often an open page gets news of changes at most: a page is made anew for it, so that the time that
// takes is at most a fraction of this.
const liveEvery = 5 * time.Second

// live is a stream of server-sent events: one with the number of Config.Revision when that has become another one. It
// says nothing about objects, and ends with the client, or with the server.
func (d *Dashboard) live(w http.ResponseWriter, r *http.Request) error {
	if d.cfg.Revision == nil {
		return &Refusal{Code: http.StatusNotFound, Message: "There is no stream of changes here."}
	}
	if err := d.knows(r); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	to := http.NewResponseController(w)
	said := d.cfg.Revision()
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	for {
		text := fmt.Sprintf("data: %d\n\n", said)
		err := to.SetWriteDeadline(time.Now().Add(liveEvery))
		if errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err == nil {
			err = to.Flush()
		}
		if err == nil {
			_ = to.SetWriteDeadline(time.Time{}) // HTTP/2 resets a stream at it that writes nothing; the next write sets one
		}
		if err != nil {
			return nil // the client is gone
		}
		for now := said; now == said; now = d.cfg.Revision() {
			select {
			case <-r.Context().Done():
				return nil
			case <-ticker.C:
			}
		}
		said = d.cfg.Revision()
	}
}
