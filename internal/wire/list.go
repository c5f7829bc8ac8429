package wire

import (
	"iter"

	"github.com/gapless-io/gapless/kube"
)

// List is the answer to a LIST: a consistent selection of objects at one
// resource version.
type List struct {
	ResourceVersion kube.ResourceVersion
	Continue        string // token for the next page, "" at the end
	// Remaining is the number of items after this page; nil when unknown (a
	// selector was given) or when nothing remains.
	Remaining *int64
	// History tells the histories of a collection apart that have the same resourceVersions for other
	// objects, as those of an API server that was restored from a backup; 0 if there is only one.
	History uint64
	// Shard is the selector of the list's shard, "" if it has none.
	Shard string
	// Past says that the objects were read from history: another reader hardly asks for the same state soon.
	Past bool
	// Versions, if not nil, identify all items in order (Key.Version): they were found without reading the items, and who
	// has kept what became of those need not range over Items.
	Versions []uint64
	// Reads tells apart what was read from history in different ways, as with other keys of encryption: with another one
	// Items of the same resourceVersions may not be readable.
	Reads uint64
	// Items yields the objects in key order. It may be ranged over more than once
	// and holds no lock. Objects may be read during the iteration: an error is the last
	// value, without an object, and means that the list is incomplete.
	Items iter.Seq2[*Object, error]
}
