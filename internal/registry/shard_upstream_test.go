package registry_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/kube"
)

// TestShardSelectsWhatUpstreamSelects compares kube's shards with apimachinery's selector
// (newer than the oldest apimachinery that kube itself is tested with),
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
		want, err := selector.Matches(&metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: namespace},
		})
		if err != nil {
			t.Fatalf("match the selector: %v", err)
		}
		var ranges []kube.ShardRange
		for _, r := range requirements {
			ranges = append(ranges, kube.ShardRange{Field: r.Key, Start: r.Start, End: r.End})
		}
		s, err := kube.NewShard(ranges...)
		if err != nil {
			t.Fatalf("make a shard: %v", err)
		}
		if got := s.Includes(namespace, types.UID(uid)); got != want || s.String() != selector.String() {
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
	end := highest
	if to := []uint64{hash - 1, hash, hash + 1, r.Uint64(), 0}[r.IntN(5)]; to > at {
		end = hex(to)
	}
	return sharding.ShardRangeRequirement{Key: key, Start: hex(at), End: end}
}
