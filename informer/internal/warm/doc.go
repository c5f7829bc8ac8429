// Package warm keeps the state of a cache on disk, so that a program that starts
// again begins with what it knew and asks the server only for what came after it.
//
// It has six nouns. A [File] is the log of one cache's states, locked, in a [Disk],
// which is a directory. A [Batch] is what is added to it in one piece, and a [State]
// what belongs to the objects of a piece: their position in the server's history
// above all. A [Codec] makes JSON of objects and objects of JSON. A [Writer] writes
// down what changed, every few seconds and at the end.
//
// # The file
//
// It begins with a header that says what the objects are, followed by frames. A frame
// holds records, compressed, or a commit. What counts is up to the last whole commit;
// what lies behind it was torn by a crash and is cut off. Each checksum is seeded with
// the one before, so that no frame counts that was not written behind its
// predecessor:
//
//	header  magic     8 bytes
//	        crc       u32  crc32c of the rest of the header
//	        bytes     u32  length of the JSON that follows: what the objects are, and a salt
//	frame   crc       u32  crc32c of the rest of the frame, seeded with the crc before
//	        bytes     u32  length of the payload that follows
//	        raw       u32  its length when it is unpacked
//	        records   u32  how many it holds
//	        kind      u32  records, records packed with zstd, commit
//	record  put       0x01, namespace, name, object (each a uvarint length and bytes)
//	        delete    0x02, namespace, name
//	commit  at, objects, unread (uvarints), n, and n times part and position
//
// # What a crash can do
//
// Frames are not synced: a lost one only means to begin from an older state, which
// costs the server a little more history. A whole new file is synced before it takes
// the place of the old one. So what is loaded is always one state that the cache
// really had, whole, with the position that belongs to it.
package warm

import "k8s.io/apimachinery/pkg/types"

// Key is the namespace and name of an object.
type Key = types.NamespacedName

// Object is what a codec can check. The zero value stands for none.
type Object interface {
	comparable
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

func keyOf[T Object](o T) Key { return Key{Namespace: o.GetNamespace(), Name: o.GetName()} }
