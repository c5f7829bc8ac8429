package kube

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/sharding"
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

// NewShard compiles what upstream's parser made of a shardSelector; nil if that
// selects everything. Errors: 400 for what the parser should have refused.
func NewShard(sel sharding.Selector) (*Shard, error) {
	if sel.Empty() {
		return nil, nil
	}
	s := &Shard{text: sel.String()}
	requirements := sel.Requirements()
	for _, r := range requirements {
		if r.Key != requirements[0].Key {
			return nil, BadRequest("invalid shard selector: all shard ranges must use the same field, got %q and %q", requirements[0].Key, r.Key)
		}
		one, err := newHashRange(r)
		if err != nil {
			return nil, BadRequest("invalid shard selector: %v", err)
		}
		s.ranges = append(s.ranges, one)
	}
	switch requirements[0].Key {
	case "object.metadata.uid":
	case "object.metadata.namespace":
		s.byNamespace = true
	default:
		return nil, BadRequest("invalid shard selector: unsupported field path %q; supported: object.metadata.uid, object.metadata.namespace", requirements[0].Key)
	}
	return s, nil
}

func newHashRange(r sharding.ShardRangeRequirement) (hashRange, error) {
	first, err := strconv.ParseUint(r.Start, 0, 64)
	if err != nil {
		return hashRange{}, fmt.Errorf("hexStart: %w", err)
	}
	last := uint64(math.MaxUint64)
	if r.End != "0x10000000000000000" {
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
	end := "0x10000000000000000" // 2^64, as upstream writes it
	if index < count-1 {
		end = fmt.Sprintf("0x%016x", boundary(index+1, count))
	}
	return NewShard(sharding.NewSelector(sharding.ShardRangeRequirement{
		Key: "object.metadata.uid", Start: fmt.Sprintf("0x%016x", boundary(index, count)), End: end,
	}))
}

// boundary is the first hash of a shard: 2^64 * index / count, rounded down.
func boundary(index, count int) uint64 {
	first, _ := bits.Div64(uint64(index), 0, uint64(count)) //nolint:gosec // not negative
	return first
}

// Includes says whether objects with this UID are in the shard, which must be one by
// UIDs; nil includes all.
func (s *Shard) Includes(uid types.UID) bool { return s == nil || s.holds(string(uid)) }

// Matches says whether o is in the shard. It allocates nothing; the hash is made
// each time, which costs less than keeping it (see BenchmarkShardMatches).
func (s *Shard) Matches(o *Object) bool {
	text := string(o.UID())
	if s.byNamespace {
		text = o.Key().Namespace
	}
	return s.holds(text)
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
