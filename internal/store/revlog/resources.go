package revlog

import (
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// ResourceStats describes what a Log has of one resource.
type ResourceStats struct {
	Keys      int64 // that exist
	LiveBytes int64 // of their newest versions
	History   int64 // bytes of the other versions that can still be read
	// First and Last are the oldest and the newest change that is kept; zero: there is none.
	First, Last Moment
	// Floor is where something was removed; zero: nothing was.
	Floor Floor
}

// Moment is a revision, and when it was committed; zero if that is unknown.
type Moment struct {
	Revision int64
	Time     time.Time
}

// Resources returns the present figures of each resource; the map belongs to the caller. It looks at the resources, and
// not at their keys.
func (l *Log) Resources() map[string]ResourceStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]ResourceStats, len(l.index.Resources))
	for name, r := range l.index.Resources {
		of := ResourceStats{Keys: r.Live, LiveBytes: r.LiveBytes, History: r.Retained - r.LiveBytes}
		if n := len(r.Changes); n > 0 {
			of.First, of.Last = l.momentLocked(r.Changes[0]), l.momentLocked(r.Changes[n-1])
		}
		if r.Floor.Revision > 0 {
			of.Floor = floorOf(r)
		}
		all[name] = of
	}
	return all
}

// momentLocked returns when a change was made. A compaction may have removed it a moment ago.
func (l *Log) momentLocked(c index.Change) Moment {
	m := Moment{Revision: c.Revision}
	if v, ok := l.index.Version(c); ok {
		m.Time = index.Moment(v.Millis)
	}
	return m
}

func floorOf(r *index.Resource) Floor {
	return Floor{
		Revision: r.Floor.Revision, Time: index.Moment(r.Floor.Millis), Reason: r.Floor.Reason,
		RemovedAt: index.Moment(r.Floor.Removed),
	}
}
