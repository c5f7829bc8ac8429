package kube_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/kube"
)

// full is 2^64 in upstream's notation.
const full = "0x10000000000000000"

func shardOf(tb testing.TB, ranges ...kube.ShardRange) *kube.Shard {
	tb.Helper()
	s, err := kube.NewShard(ranges...)
	if err != nil {
		tb.Fatalf("make a shard: %v", err)
	}
	return s
}

func TestShardsOfASplitTakeEachObjectOnce(t *testing.T) {
	shards := []*kube.Shard{
		shardOf(t, kube.ShardRange{Field: "object.metadata.uid", Start: "0x0000000000000000", End: "0x4000000000000000"}),
		shardOf(t, kube.ShardRange{Field: "object.metadata.uid", Start: "0x4000000000000000", End: "0xc000000000000000"}),
		shardOf(t, kube.ShardRange{Field: "object.metadata.uid", Start: "0xc000000000000000", End: full}),
	}
	counts := make([]int, len(shards))
	const seed = 2
	r := rand.New(rand.NewPCG(seed, seed))
	for range 1000 {
		uid := types.UID(fmt.Sprintf("%08x-ab59-4f0a-8f0b-%012x", r.Uint32(), r.Uint64()>>16))
		owners := 0
		for n, s := range shards {
			if s.Includes("default", uid) {
				owners++
				counts[n]++
			}
		}
		if owners != 1 {
			t.Fatalf("%s is in %d shards", uid, owners)
		}
	}
	if counts[0] == 0 || counts[1] == 0 || counts[2] == 0 {
		t.Errorf("shards have %v objects", counts)
	}
}

func TestInvalidShardsAreRefused(t *testing.T) {
	const uid = "object.metadata.uid"
	for name, ranges := range map[string][]kube.ShardRange{
		"other field": {{Field: "object.metadata.name", Start: "0x0000000000000000", End: full}},
		"two fields": {
			{Field: uid, Start: "0x0000000000000000", End: full},
			{Field: "object.metadata.namespace", Start: "0x0000000000000000", End: full},
		},
		"no start":     {{Field: uid, End: full}},
		"no end":       {{Field: uid, Start: "0x0000000000000000"}},
		"backwards":    {{Field: uid, Start: "0x0000000000000002", End: "0x0000000000000001"}},
		"empty":        {{Field: uid, Start: "0x0000000000000002", End: "0x0000000000000002"}},
		"empty at all": {{Field: uid, Start: "0x0000000000000000", End: "0x0000000000000000"}},
		"no number":    {{Field: uid, Start: "0xg000000000000000", End: full}},
	} {
		s, err := kube.NewShard(ranges...)
		if err == nil || !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v, %v, want 400", name, s, err)
		}
	}
	if s, err := kube.NewShard(); s != nil || err != nil {
		t.Errorf("no ranges: %v, %v, want no shard", s, err)
	}
}

func BenchmarkShardIncludes(b *testing.B) {
	s := shardOf(b, kube.ShardRange{Field: "object.metadata.uid", Start: "0x4000000000000000", End: "0x8000000000000000"})
	b.ReportAllocs()
	for b.Loop() {
		s.Includes("default", "6f1ed002-ab59-4f0a-8f0b-1c4f3f6f0a5e")
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
					t.Fatalf("find the shard: %v", err)
				}
				if s.Includes("", uid) {
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
