package inspect

import (
	"fmt"
	"time"

	"github.com/gapless-io/gapless/status"
)

// rates are the events per second that watches get, between two answers.
type rates struct {
	now           func() time.Time
	last, current map[watchKey]uint64
	lastAt, at    time.Time
}

// watchKey tells a watch from all others, most likely.
type watchKey struct {
	client status.Client // without Since, whose form may differ
	since  int64
}

func keyOf(w *status.Watch) watchKey {
	k := watchKey{client: w.Client, since: w.Since.UnixNano()}
	k.client.Since = time.Time{}
	return k
}

// next begins with another answer.
func (r *rates) next(all []status.Watch) {
	r.last, r.lastAt = r.current, r.at
	r.current, r.at = make(map[watchKey]uint64, len(all)), r.now()
	for i := range all {
		r.current[keyOf(&all[i])] = all[i].Delivered
	}
}

// of is the rate of a watch; it is not known of one that was not in the answer before.
func (r *rates) of(w *status.Watch) cell {
	before, known := r.last[keyOf(w)]
	took := r.at.Sub(r.lastAt).Seconds()
	if !known || took <= 0 || w.Delivered < before {
		return cell{text: "-"}
	}
	rate := float64(w.Delivered-before) / took
	return cell{text: fmt.Sprintf("%.1f", rate), by: rate}
}
