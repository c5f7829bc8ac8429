// Package persist keeps the state of a cache on disk, so that a restarted program begins
// with that state and requests only the changes since.
//
// A [File] is the log of one cache's states, locked, in a [Disk], which is a directory. A
// [Batch] is a set of changes that is committed as a whole, with a [State]: the resource
// versions and counts of the objects after it. A [Codec] encodes objects as JSON and decodes
// them. A [Writer] writes the changes of a cache, every few seconds and at the end.
//
// # The file
//
// A header that identifies the objects is followed by frames. A frame holds records,
// usually compressed, or a commit. The file's state ends with the last complete commit;
// anything after it was left by a crash and is cut off. Each checksum is seeded with the
// one before, so that a frame is valid only after the frame that it was written after:
//
//	header  magic     8 bytes
//	        crc       u32  crc32c of the rest of the header
//	        bytes     u32  length of the JSON that follows: source and shape of the objects, a salt
//	frame   crc       u32  crc32c of the rest of the frame, seeded with the crc before
//	        bytes     u32  length of the payload that follows
//	        raw       u32  its length when it is decompressed
//	        records   u32  the number of records
//	        kind      u32  records, records compressed with zstd, commit
//	record  put       0x01, namespace, name, object (each a uvarint length and bytes)
//	        delete    0x02, namespace, name
//	commit  at, objects, unread (uvarints), n, and n times namespace and resource version
//
// # Crashes
//
// Frames are not synced. If some are lost, the program begins with an older state, and
// the server sends a little more history. A rewritten file is synced before it replaces
// the old one. So the loaded state is always one that the cache had, complete and with
// its resource versions.
//
// The file's extension is .warm and its magic number gapwarm1, because the format was
// once named after the warm start that it allows. Both are kept: files of older versions
// stay readable.
package persist
