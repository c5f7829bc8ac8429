package kube_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/kube"
)

// full is 2^64 in upstream's notation.
const full = "0x10000000000000000"

func shardOf(tb testing.TB, requirements ...sharding.ShardRangeRequirement) *kube.Shard {
	tb.Helper()
	s, err := kube.NewShard(sharding.NewSelector(requirements...))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func objectWith(tb testing.TB, namespace, uid string) *kube.Object {
	tb.Helper()
	o, err := kube.ParseObject(fmt.Appendf(nil, `{"metadata":{"name":"a","namespace":%q,"uid":%q}}`, namespace, uid), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

// TestShardSelectsWhatUpstreamSelects compares with apimachinery's own selector,
// with boundaries that often are the hash itself or next to it.
func TestShardSelectsWhatUpstreamSelects(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, seed))
	matched := 0
	for i := range 4000 {
		uid, namespace := fmt.Sprintf("6f1ed002-ab59-4f0a-8f0b-%012x", r.Uint64()>>16), fmt.Sprintf("ns-%d", r.IntN(50))
		key, value := "object.metadata.uid", uid
		if i%3 == 0 {
			key, value = "object.metadata.namespace", namespace
		}
		var requirements []sharding.ShardRangeRequirement
		for range 1 + r.IntN(3) {
			requirements = append(requirements, boundaries(r, key, value))
		}
		selector := sharding.NewSelector(requirements...)
		want, err := selector.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: namespace}})
		if err != nil {
			t.Fatal(err)
		}
		s := shardOf(t, requirements...)
		if got := s.Matches(objectWith(t, namespace, uid)); got != want || s.String() != selector.String() {
			t.Errorf("%s: uid %s in %s: %v, want %v", selector, uid, namespace, got, want)
		}
		if want {
			matched++
		}
	}
	if matched < 1000 || matched > 3000 {
		t.Errorf("%d of 4000 matched: the boundaries do not test much", matched)
	}
}

// boundaries returns a range near the hash of value, or anywhere.
func boundaries(r *rand.Rand, key, value string) sharding.ShardRangeRequirement {
	var hash uint64
	if _, err := fmt.Sscanf(sharding.HashField(value), "%x", &hash); err != nil {
		panic(err)
	}
	hex := func(n uint64) string { return fmt.Sprintf("0x%016x", n) }
	at := []uint64{hash - 1, hash, hash + 1, r.Uint64(), 0}[r.IntN(5)]
	end := full
	if to := []uint64{hash - 1, hash, hash + 1, r.Uint64(), 0}[r.IntN(5)]; to > at {
		end = hex(to)
	}
	return sharding.ShardRangeRequirement{Key: key, Start: hex(at), End: end}
}

func TestShardsOfASplitTakeEachObjectOnce(t *testing.T) {
	shards := []*kube.Shard{
		shardOf(t, sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: "0x0000000000000000", End: "0x4000000000000000"}),
		shardOf(t, sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: "0x4000000000000000", End: "0xc000000000000000"}),
		shardOf(t, sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: "0xc000000000000000", End: full}),
	}
	counts := make([]int, len(shards))
	const seed = 2
	r := rand.New(rand.NewPCG(seed, seed))
	for range 1000 {
		o := objectWith(t, "default", fmt.Sprintf("%08x-ab59-4f0a-8f0b-%012x", r.Uint32(), r.Uint64()>>16))
		owners := 0
		for n, s := range shards {
			if s.Matches(o) {
				owners++
				counts[n]++
			}
		}
		if owners != 1 {
			t.Fatalf("%s is in %d shards", o.UID(), owners)
		}
	}
	if counts[0] == 0 || counts[1] == 0 || counts[2] == 0 {
		t.Errorf("shards have %v objects", counts)
	}
}

func TestShardThatNoParserMakesIsRefused(t *testing.T) {
	const uid = "object.metadata.uid"
	for name, requirements := range map[string][]sharding.ShardRangeRequirement{
		"other field":  {{Key: "object.metadata.name", Start: "0x0000000000000000", End: full}},
		"two fields":   {{Key: uid, Start: "0x0000000000000000", End: full}, {Key: "object.metadata.namespace", Start: "0x0000000000000000", End: full}},
		"no start":     {{Key: uid, End: full}},
		"no end":       {{Key: uid, Start: "0x0000000000000000"}},
		"backwards":    {{Key: uid, Start: "0x0000000000000002", End: "0x0000000000000001"}},
		"empty":        {{Key: uid, Start: "0x0000000000000002", End: "0x0000000000000002"}},
		"empty at all": {{Key: uid, Start: "0x0000000000000000", End: "0x0000000000000000"}},
		"no number":    {{Key: uid, Start: "0xg000000000000000", End: full}},
	} {
		s, err := kube.NewShard(sharding.NewSelector(requirements...))
		if err == nil || kube.StatusOf(err).Code != 400 {
			t.Errorf("%s: %v, %v, want 400", name, s, err)
		}
	}
	if s, err := kube.NewShard(sharding.Everything()); s != nil || err != nil {
		t.Errorf("everything: %v, %v, want no shard", s, err)
	}
}

func BenchmarkShardMatches(b *testing.B) {
	s := shardOf(b, sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: "0x4000000000000000", End: "0x8000000000000000"})
	o := objectWith(b, "default", "6f1ed002-ab59-4f0a-8f0b-1c4f3f6f0a5e")
	b.ReportAllocs()
	for b.Loop() {
		s.Matches(o)
	}
}

func TestShardsByNumberTakeEachObjectOnce(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, seed))
	for _, count := range []int{1, 2, 3, 7, 8, 100} {
		taken := make([]int, count)
		for range 2000 {
			uid := types.UID(fmt.Sprintf("%08x-ab59-4f0a-8f0b-%012x", r.Uint32(), r.Uint64()>>16))
			owners := 0
			for n := range count {
				s, err := kube.ShardOf(n, count)
				if err != nil {
					t.Fatal(err)
				}
				if s.Includes(uid) {
					owners++
					taken[n]++
				}
			}
			if owners != 1 {
				t.Fatalf("%s is in %d of %d shards", uid, owners, count)
			}
		}
		for n, got := range taken {
			if want := 2000 / count; got < want/4 || got > want*4 {
				t.Errorf("shard %d of %d has %d of 2000 objects", n, count, got)
			}
		}
	}
	for _, bad := range [][2]int{{0, 0}, {-1, 3}, {3, 3}, {0, -2}} {
		if _, err := kube.ShardOf(bad[0], bad[1]); err == nil {
			t.Errorf("shard %d of %d was made", bad[0], bad[1])
		}
	}
}
