package index

// Bounds of the values that are kept in memory for feeds that are close to the
// end. They are the log's only cache; what was published is in the watch cache too,
// so that they need cover no more than a feed is late.
const (
	ringValues = 4 << 10
	ringBytes  = 4 << 20
)

// Ring holds the values of the latest revisions. It forgets the oldest
// when it is over its bounds.
type Ring struct {
	first  int64 // revision of values[0]
	values [][]byte
	bytes  int
}

// Add appends the value of the revision that follows the last.
func (r *Ring) Add(revision int64, value []byte) {
	if len(r.values) == 0 {
		r.first = revision
	}
	r.values = append(r.values, value)
	r.bytes += len(value)
	for len(r.values) > ringValues || r.bytes > ringBytes {
		r.bytes -= len(r.values[0])
		r.values[0] = nil
		r.values = r.values[1:]
		r.first++
	}
}

// Get returns the value of a revision; nil if it is not here.
func (r *Ring) Get(revision int64) []byte {
	if i := revision - r.first; i >= 0 && i < int64(len(r.values)) {
		return r.values[i]
	}
	return nil
}
