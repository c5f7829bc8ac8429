package mirror

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/gapless-io/gapless/kube"
)

// The records of a collection in the log are
//
//	<key>/<namespace>/<name>  an object: its resourceVersion in eight bytes, and its JSON,
//	                          which may be encrypted (seal.go)
//	~<key>/mark               what the other records do not say: a mark
//	~<key>/progress           a mark that follows no change, so that it does not hide the last one
//	~epochs/<name>            which history of the collection is the current one
//
// where key is the name, with the number of its history if that is not the first. A deletion
// has no value: the mark after it has its resourceVersion, and is in the same group of the log.
// So are changes at one resourceVersion: the log never ends between them.

// markKind is what a mark says.
type markKind byte

const (
	markDeletion markKind = iota + 1 // the record before is a deletion at RV, or nothing was there to be deleted
	markProgress                     // the collection had no other change up to RV
	markBegin                        // of a replacement: until markEnd the state is none of the other server
	markEnd                          // of a replacement: this is the state at RV
)

const versionBytes = 8

func encodeObject(rv kube.ResourceVersion, object []byte) []byte {
	b := make([]byte, 0, versionBytes+len(object))
	return append(binary.BigEndian.AppendUint64(b, uint64(rv)), object...)
}

func decodeObject(value []byte) (rv kube.ResourceVersion, object []byte, err error) {
	if len(value) < versionBytes {
		return 0, nil, fmt.Errorf("a mirrored object of %d bytes has no resourceVersion", len(value))
	}
	return kube.ResourceVersion(binary.BigEndian.Uint64(value)), value[versionBytes:], nil
}

func encodeMark(kind markKind, rv kube.ResourceVersion) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(kind)}, uint64(rv))
}

func decodeMark(value []byte) (kind markKind, rv kube.ResourceVersion, err error) {
	if len(value) != 1+versionBytes || value[0] == 0 || markKind(value[0]) > markEnd {
		return 0, 0, fmt.Errorf("%x is no mark of a mirrored collection", value[:min(len(value), 1+versionBytes)])
	}
	return markKind(value[0]), kube.ResourceVersion(binary.BigEndian.Uint64(value[1:])), nil
}

func encodeEpoch(epoch uint64, before kube.ResourceVersion) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, epoch), uint64(before))
}

func decodeEpoch(value []byte) (epoch uint64, before kube.ResourceVersion, err error) {
	if len(value) != 2*versionBytes {
		return 0, 0, fmt.Errorf("%x is no number of a history", value[:min(len(value), 2*versionBytes)])
	}
	return binary.BigEndian.Uint64(value), kube.ResourceVersion(binary.BigEndian.Uint64(value[versionBytes:])), nil
}

// ownPrefix is the first part of the keys of what is recorded beside a collection's objects.
func ownPrefix(key string) string { return "~" + key + "/" }

func epochKey(name string) string { return "~epochs/" + name }

// keyOf is the first part of the keys of a collection's objects.
func keyOf(name string, epoch uint64) string {
	if epoch == 0 {
		return name
	}
	return name + "@" + strconv.FormatUint(epoch, 10)
}
