package simulation

import (
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// answer is what a reader got for a moment, when head was known.
type answer struct {
	prefix         string
	at             time.Time
	head, revision int64
	refused        *store.CompactedError
}

// checkMoments checks what readers got for moments: that it is the revision of the last write of the resource by then,
// and that one is refused only if it is before the floor.
func (m *model) checkMoments() {
	for _, a := range m.moments {
		first := a.revision
		if a.refused != nil {
			first = a.refused.Floor - 1
		}
		for r := m.base + 1; r <= m.head(); r++ {
			e := m.entry(r)
			if e.time.IsZero() || !strings.HasPrefix(e.txn.Key, a.prefix) {
				continue
			}
			before := e.time.UnixMilli() <= a.at.UnixMilli()
			switch {
			case a.refused == nil && r <= a.revision && !before, r > first && r <= a.head && before:
				m.fail("%q at %v is answered at %d, or refused by %v; the write %d is of %v",
					a.prefix, a.at, a.revision, a.refused, r, e.time)
			}
		}
	}
	m.moments = nil
}
