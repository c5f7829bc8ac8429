package registry

import (
	"k8s.io/apiserver/pkg/sharding"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// maxShardSelector is the longest shardSelector that is parsed, in bytes: some
// hundred ranges. Upstream has no limit of its own.
const maxShardSelector = 32 << 10

// shardOf compiles the shardSelector of a request with upstream's parser, nil when
// there is none. Errors: 400 with upstream's texts (upstream answers 500).
func shardOf(o wire.ListOptions) (*kube.Shard, error) {
	if o.Shard == "" {
		return nil, nil
	}
	if len(o.Shard) > maxShardSelector {
		return nil, wire.BadRequest("invalid shard selector: it has %d bytes, at most %d are allowed",
			len(o.Shard), maxShardSelector)
	}
	sel, err := sharding.Parse(o.Shard)
	if err != nil {
		return nil, wire.BadRequest("invalid shard selector: %v", err)
	}
	var ranges []kube.ShardRange
	for _, r := range sel.Requirements() {
		ranges = append(ranges, kube.ShardRange{Field: r.Key, Start: r.Start, End: r.End})
	}
	return kube.NewShard(ranges...)
}
