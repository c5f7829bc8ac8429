package campaign

import (
	"testing"
	"time"
)

// TestReplicasMayMissOnlyWhatWasCompactedWhileTheyWereAway: two compactions, one interval apart, can pass while the
// processes of a busy machine start.
func TestReplicasMayMissOnlyWhatWasCompactedWhileTheyWereAway(t *testing.T) {
	for name, c := range map[string]struct {
		planned, own int64
		away         time.Duration
		want         bool
	}{
		"nothing was compacted":                       {0, 0, time.Hour, false},
		"it was compacted as planned":                 {101, 0, time.Second, true},
		"less was compacted as planned":               {100, 0, time.Second, false},
		"the replicas compacted, long after":          {0, 101, 21 * time.Second, true},
		"the replicas compacted too soon":             {0, 101, 20 * time.Second, false},
		"the replicas compacted long after, but less": {0, 100, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			state := compactions{planned: c.planned, own: c.own, interval: 20 * time.Second}
			if got := state.excuse(100, c.away); got != c.want {
				t.Errorf("whether what came after 100 may be missed: %v, want %v", got, c.want)
			}
		})
	}
}
