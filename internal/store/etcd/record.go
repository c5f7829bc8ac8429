package etcd

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The records of the log are
//
//	<key of the store>   an object: etcd's mod revision and create revision, in eight bytes each,
//	                     and its value as it is in etcd, which may be encrypted there
//	~etcd/mark           what the other records do not say: a mark
//	~etcd/progress       up to which revision there was no other change
//	~etcd/cluster        which cluster, and which keys of it: the cluster's id and the prefix
//	~etcd/known          which resources the log has, in JSON
//	~etcd/checkpoint     which positions have which revisions, up to one of them
//	~etcd/runs/<n>/<i>   the runs of the checkpoint
//
// A deletion has no value: a mark in the same group of the log has its revision. So are the changes
// at one revision: the log never ends between them. What is too large for a group is recorded like
// what a hole differs in, between two marks.

// own is the resource of what the log has beside objects. Resources of Kubernetes have no tilde.
const own = "~etcd"

const (
	markKey       = own + "/mark"
	progressKey   = own + "/progress"
	clusterKey    = own + "/cluster"
	knownKey      = own + "/known"
	checkpointKey = own + "/checkpoint"
	runsPrefix    = own + "/runs/"
)

// markKind is what a mark says.
type markKind byte

const (
	markDeletion markKind = iota + 1 // the group has deletions; all its changes are at the revision
	markBegin                        // the state of the revision is replaced: until markEnd it is none of etcd's
	markEnd                          // this is the state at the revision
)

const (
	revisionBytes = 8
	headBytes     = 2 * revisionBytes // of an object
)

var errRecord = errors.New("the record is none of a replica's log")

func encodeObject(mod, create int64, value []byte) []byte {
	b := make([]byte, 0, headBytes+len(value))
	b = binary.BigEndian.AppendUint64(b, uint64(mod))
	return append(binary.BigEndian.AppendUint64(b, uint64(create)), value...)
}

// object is an object in the log.
type object struct {
	mod, create int64
	value       []byte // as it is in etcd
}

func decodeObject(record []byte) (object, error) {
	if len(record) < headBytes {
		return object{}, fmt.Errorf("an object of %d bytes: %w", len(record), errRecord)
	}
	mod, create := binary.BigEndian.Uint64(record), binary.BigEndian.Uint64(record[revisionBytes:])
	return object{mod: int64(mod), create: int64(create), value: record[headBytes:]}, nil
}

func encodeMark(kind markKind, rev int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(kind)}, uint64(rev))
}

func decodeMark(record []byte) (kind markKind, rev int64, err error) {
	if len(record) != 1+revisionBytes || record[0] == 0 || markKind(record[0]) > markEnd {
		return 0, 0, fmt.Errorf("mark %x: %w", record[:min(len(record), 1+revisionBytes)], errRecord)
	}
	return markKind(record[0]), int64(binary.BigEndian.Uint64(record[1:])), nil
}

func encodeRevision(rev int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(rev)) }

func decodeRevision(record []byte) (int64, error) {
	if len(record) != revisionBytes {
		return 0, fmt.Errorf("a revision of %d bytes: %w", len(record), errRecord)
	}
	return int64(binary.BigEndian.Uint64(record)), nil
}

// cluster says whose history the log has.
type cluster struct {
	id     uint64
	prefix string
}

func (c cluster) encode() []byte {
	return append(binary.BigEndian.AppendUint64(nil, c.id), c.prefix...)
}

func decodeCluster(record []byte) (cluster, error) {
	if len(record) < revisionBytes {
		return cluster{}, fmt.Errorf("a cluster of %d bytes: %w", len(record), errRecord)
	}
	return cluster{id: binary.BigEndian.Uint64(record), prefix: string(record[revisionBytes:])}, nil
}

// checkpoint says which positions have which revisions, up to one of them. Its runs are in records
// of their own, under its number.
type checkpoint struct {
	number  int64
	records int64 // of its runs
	at      moment
	holes   []hole
	last    lastKnown
}

// moment is a position and the revision up to which the state there is etcd's.
type moment struct{ pos, rev int64 }

func (c checkpoint) encode() []byte {
	b := []byte{1} // the version of the form
	for _, n := range []int64{c.number, c.records, c.at.pos, c.at.rev, int64(len(c.holes))} {
		b = binary.AppendVarint(b, n)
	}
	for _, h := range c.holes {
		for _, n := range []int64{h.from, h.to, h.begin, h.end} {
			b = binary.AppendVarint(b, n)
		}
	}
	deleted := int64(0)
	if c.last.deleted {
		deleted = 1
	}
	b = binary.AppendVarint(binary.AppendVarint(b, c.last.rev), deleted)
	return append(b, c.last.key...)
}

// varints reads numbers one after the other; after the first that is not there, all are 0.
type varints struct {
	rest []byte
	err  error
}

func (v *varints) next() int64 {
	n, size := binary.Varint(v.rest)
	if size <= 0 {
		v.rest, v.err = nil, errRecord
		return 0
	}
	v.rest = v.rest[size:]
	return n
}

func decodeCheckpoint(record []byte) (checkpoint, error) {
	if len(record) == 0 || record[0] != 1 {
		return checkpoint{}, fmt.Errorf("a checkpoint of an unknown form: %w", errRecord)
	}
	v := varints{rest: record[1:]}
	c := checkpoint{number: v.next(), records: v.next(), at: moment{pos: v.next(), rev: v.next()}}
	for range v.next() {
		if v.err != nil {
			break
		}
		c.holes = append(c.holes, hole{from: v.next(), to: v.next(), begin: v.next(), end: v.next()})
	}
	c.last = lastKnown{rev: v.next(), deleted: v.next() == 1}
	if v.err != nil {
		return checkpoint{}, fmt.Errorf("a checkpoint that is cut off: %w", v.err)
	}
	c.last.key = string(v.rest)
	return c, nil
}

// runsPerRecord keeps a record of runs, of at most 25 bytes each, below the largest value.
const runsPerRecord = 250_000

// encodeRuns writes each run as what it is more than the one before.
func encodeRuns(runs []run) []byte {
	b := make([]byte, 0, 8*len(runs))
	var last run
	for _, r := range runs {
		flat := int64(0)
		if r.flat {
			flat = 1
		}
		b = binary.AppendVarint(b, r.pos-last.pos)
		b = binary.AppendVarint(b, (r.rev-last.rev)<<1|flat)
		b = binary.AppendVarint(b, int64(r.n))
		last = r
	}
	return b
}

func decodeRuns(record []byte) ([]run, error) {
	var runs []run
	var last run
	for v := (varints{rest: record}); len(v.rest) > 0; {
		pos, rev, n := v.next(), v.next(), v.next()
		if v.err != nil {
			return nil, fmt.Errorf("runs of positions that are cut off: %w", v.err)
		}
		last = run{pos: last.pos + pos, rev: last.rev + rev>>1, n: int32(n), flat: rev&1 != 0}
		runs = append(runs, last)
	}
	return runs, nil
}
