package etcd

import (
	"slices"
	"testing"
)

// TestAReplacementThatIsRecordedAgainIsOneHole: known.go's record may fail after the end of a replacement, which is
// recorded again then. Its deletions are of the one hole, also after a restart.
func TestAReplacementThatIsRecordedAgainIsOneHole(t *testing.T) {
	r := rebuild{marks: []placedMark{
		{pos: 5, kind: markBegin, rev: 10},
		{pos: 7, kind: markEnd, rev: 20},
		{pos: 8, kind: markBegin, rev: 10},
		{pos: 12, kind: markEnd, rev: 30},
		{pos: 15, kind: markBegin, rev: 30},
		{pos: 16, kind: markEnd, rev: 40},
	}}
	r.marksBefore(20)
	want := []hole{{from: 10, to: 30, begin: 5, end: 12}, {from: 30, to: 40, begin: 15, end: 16}}
	if !slices.Equal(r.holes, want) {
		t.Errorf("the holes are %v, want %v", r.holes, want)
	}
}
