package fsck

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// suspect is the readable part of a damaged record. Any of it may be wrong.
type suspect struct {
	offset   int64
	key      string // "" if it is unreadable
	previous int64
	create   int64
	revision int64
	creates  bool // it seems to be the first version of its key
}

// read reads the readable part of a damaged record at off.
func read(b []byte, off int64) suspect {
	k := suspect{offset: off}
	if len(b) < format.RecordHeaderBytes {
		return k
	}
	k.revision = int64(binary.LittleEndian.Uint64(b[8:]))
	k.create = int64(binary.LittleEndian.Uint64(b[16:]))
	k.previous = int64(binary.LittleEndian.Uint64(b[24:]))
	value, length := int64(binary.LittleEndian.Uint32(b[40:])), int64(binary.LittleEndian.Uint16(b[44:]))
	k.creates = k.previous == 0 && k.create == k.revision && k.revision > 0
	size := (format.RecordHeaderBytes + value + length + 7) / 8 * 8
	if length == 0 || length > format.MaxKeyBytes || size != int64(len(b)) {
		return k
	}
	key := b[format.RecordHeaderBytes:][:length]
	if bytes.IndexFunc(key, func(r rune) bool { return r < ' ' || r == '�' }) < 0 && format.ValidKey(string(key)) {
		k.key = strings.Clone(string(key))
	}
	return k
}

// judge finds out what the damage has lost.
func (c *check) judge() {
	for _, g := range c.gaps {
		c.judgeGap(g)
	}
	if c.tailLost {
		c.report.LostRevisions = append(c.report.LostRevisions, Revisions{
			From: min(c.highest, c.highestRecord()) + 1, To: c.highest + c.opts.Bump,
		})
	}
	if c.unknownUpTo > 0 {
		c.report.LostRevisions = append(c.report.LostRevisions, Revisions{From: 1, To: c.unknownUpTo})
	}
	for _, from := range c.unknown {
		c.report.LostRevisions = append(c.report.LostRevisions, Revisions{From: from, To: max(from, c.highest) + c.opts.Bump})
	}
}

// judgeGap finds out which objects the lost revisions of a gap concern, unless later
// whole records tell that all of them were superseded.
func (c *check) judgeGap(g *gap) {
	superseded := int64(0)
	for revision := range c.superseded {
		if g.From <= revision && revision <= g.To {
			superseded++
		}
	}
	p := &c.report.Problems[g.problem]
	if g.lost >= 0 && g.lost <= superseded {
		p.Repair = "later versions are intact: only history is lost, and older resourceVersions expire"
		return
	}
	known := superseded
	for _, k := range g.suspects {
		keys, superseded := c.concerned(k, g)
		for _, key := range keys {
			c.lostKey(key, g)
			p.Keys = append(p.Keys, key)
		}
		if len(keys) > 0 || superseded {
			known++
		}
	}
	p.Repair = "the newest state of these objects is lost: they are removed, and all older resourceVersions expire"
	if g.lost < 0 || known < g.lost {
		c.report.LostRevisions = append(c.report.LostRevisions, g.Revisions)
		p.Repair = "some objects may be missing or in an older state, and all older resourceVersions expire"
	}
}

// concerned returns the keys of which the damaged record may have been the newest
// version, or that it was superseded. Its key, its previous revision and the
// revision that created it are asked in turn, since any one of them may be wrong.
func (c *check) concerned(k suspect, g *gap) (keys []string, superseded bool) {
	byKey, exists := c.newest[k.key]
	stale := exists && byKey.revision < g.To
	byPrevious := ""
	if k.previous > 0 {
		byPrevious = c.latestAt(k.previous)
	}
	switch {
	case byPrevious == "" && exists && !stale:
		return nil, true
	case byPrevious == "" && (!exists || k.creates && !byKey.deleted):
		return nil, false // a new object, or a version that replaced a compacted one: only this record had its key
	case byPrevious == "" || byPrevious == k.key:
		return []string{k.key}, false
	case exists && !stale:
		return []string{byPrevious}, false
	}
	// Key and previous revision disagree: one of them is wrong.
	switch create := c.newest[byPrevious].create; {
	case k.create == create && (!exists || k.create != byKey.create):
		return []string{byPrevious}, false
	case exists && k.create == byKey.create && k.create != create, !exists && k.create > 0 && k.key != "":
		return []string{k.key}, false
	case k.key == "":
		return []string{byPrevious}, false
	}
	return []string{k.key, byPrevious}, false
}

// latestAt returns the key whose newest whole version is of a revision, or "".
func (c *check) latestAt(revision int64) string {
	if c.byRevision == nil {
		c.byRevision = make(map[int64]string, len(c.newest))
		for key, p := range c.newest {
			c.byRevision[p.revision] = key
		}
	}
	return c.byRevision[revision]
}

// lostKey drops a key of which the newest state is unreadable.
func (c *check) lostKey(key string, g *gap) {
	c.report.LostKeys = append(c.report.LostKeys, key)
	if p, ok := c.newest[key]; ok && p.revision <= max(g.To, g.From) {
		delete(c.newest, key)
	}
}

// certain says that the newest state of every object is known, and that nothing that
// was written last can be missing.
func (c *check) certain() bool {
	return !c.rebuilt && !c.tailLost && len(c.report.LostKeys) == 0 && len(c.report.LostRevisions) == 0
}
