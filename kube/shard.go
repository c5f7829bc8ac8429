package kube

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Shard is a part of a collection by the hash of a field (KEP-5866): the parsed
// shardSelector of a request. It never changes, and is safe for concurrent use.
type Shard struct {
	text        string
	byNamespace bool // otherwise by uid
	ranges      []hashRange
}

// hashRange is a range of hashes with both ends in it, so that 2^64 needs no more
// than 64 bits.
type hashRange struct{ first, last uint64 }

// The fields by which a collection can be divided.
const (
	shardByUID       = "object.metadata.uid"
	shardByNamespace = "object.metadata.namespace"
)

// endOfHashes is 2^64 in upstream's notation: the end of the last range.
const endOfHashes = "0x10000000000000000"

// ShardRange is one shardRange(field, 'start', 'end') of a shardSelector.
type ShardRange struct {
	Field string // object.metadata.uid or object.metadata.namespace
	Start string // the first hash in the range: 0x and hexadecimal digits
	End   string // the first hash after it; 0x10000000000000000 is after all
}

// String returns the range as it is written in a shardSelector.
func (r ShardRange) String() string {
	return fmt.Sprintf("shardRange(%s, '%s', '%s')", r.Field, r.Start, r.End)
}

// NewShard returns the shard that the ranges of a parsed shardSelector select together;
// nil, which selects everything, without ranges. Errors: 400 (an *errors.StatusError of
// apimachinery) for ranges that upstream's parser refuses.
func NewShard(ranges ...ShardRange) (*Shard, error) {
	if len(ranges) == 0 {
		return nil, nil
	}
	field := ranges[0].Field
	s := &Shard{}
	texts := make([]string, len(ranges))
	for n, r := range ranges {
		if r.Field != field {
			return nil, invalidShard("all shard ranges must use the same field, got %q and %q", field, r.Field)
		}
		one, err := r.hashes()
		if err != nil {
			return nil, invalidShard("%v", err)
		}
		s.ranges = append(s.ranges, one)
		texts[n] = r.String()
	}
	switch field {
	case shardByUID:
	case shardByNamespace:
		s.byNamespace = true
	default:
		return nil, invalidShard("unsupported field path %q; supported: %s, %s", field, shardByUID, shardByNamespace)
	}
	s.text = strings.Join(texts, " || ")
	return s, nil
}

func invalidShard(format string, args ...any) error {
	return apierrors.NewBadRequest("invalid shard selector: " + fmt.Sprintf(format, args...))
}

func (r ShardRange) hashes() (hashRange, error) {
	first, err := strconv.ParseUint(r.Start, 0, 64)
	if err != nil {
		return hashRange{}, fmt.Errorf("hexStart: %w", err)
	}
	last := uint64(math.MaxUint64)
	if r.End != endOfHashes {
		end, err := strconv.ParseUint(r.End, 0, 64)
		if err != nil {
			return hashRange{}, fmt.Errorf("hexEnd: %w", err)
		}
		if end == 0 {
			return hashRange{}, fmt.Errorf("shard range start %s must be less than end %s", r.Start, r.End)
		}
		last = end - 1
	}
	if first > last {
		return hashRange{}, fmt.Errorf("shard range start %s must be less than end %s", r.Start, r.End)
	}
	return hashRange{first: first, last: last}, nil
}

// ShardOf is the shard with the number index, from 0, of a collection that is divided
// into count shards of equal size by the objects' UIDs.
func ShardOf(index, count int) (*Shard, error) {
	if count < 1 || index < 0 || index >= count {
		return nil, fmt.Errorf("there is no shard %d of %d: shards are numbered from 0", index, count)
	}
	if count == 1 {
		return nil, nil
	}
	end := endOfHashes
	if index < count-1 {
		end = fmt.Sprintf("0x%016x", boundary(index+1, count))
	}
	return NewShard(ShardRange{Field: shardByUID, Start: fmt.Sprintf("0x%016x", boundary(index, count)), End: end})
}

// boundary is the first hash of a shard: 2^64 * index / count, rounded down.
func boundary(index, count int) uint64 {
	first, _ := bits.Div64(uint64(index), 0, uint64(count)) //nolint:gosec // not negative
	return first
}

// Includes reports whether an object with this namespace and UID is in the shard; nil
// includes all. It allocates nothing; the hash is made each time, which costs less than
// keeping it (see BenchmarkShardIncludes).
func (s *Shard) Includes(namespace string, uid types.UID) bool {
	switch {
	case s == nil:
		return true
	case s.byNamespace:
		return s.holds(namespace)
	}
	return s.holds(string(uid))
}

func (s *Shard) holds(text string) bool {
	hash := fnv1a(text)
	return slices.ContainsFunc(s.ranges, func(r hashRange) bool { return r.first <= hash && hash <= r.last })
}

// String returns the selector as upstream writes it in a list's shardInfo.
func (s *Shard) String() string { return s.text }

// fnv1a is the hash of KEP-5866: FNV-1a with 64 bits (apimachinery
// pkg/sharding/hash.go).
func fnv1a(text string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for i := range len(text) {
		hash = (hash ^ uint64(text[i])) * prime
	}
	return hash
}
