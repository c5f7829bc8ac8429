package kube

import (
	"encoding/json"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Frame encodes one line of a watch: `{"type":"ADDED","object":{…}}` and a
// newline. The bytes are the caller's.
func Frame(t EventType, o *Object) []byte {
	return frame(t, o.raw)
}

// BookmarkFrame encodes a bookmark that promises everything up to rv. t is
// Bookmark, or InitialEventsEnd for the annotated one that ends the initial events
// (server.md 3.4). apiVersion and kind are those of the watched resource.
func BookmarkFrame(apiVersion, kind string, rv ResourceVersion, t EventType) []byte {
	b := make([]byte, 0, 192)
	b = append(b, `{"kind":`...)
	b = appendString(b, kind)
	b = append(b, `,"apiVersion":`...)
	b = appendString(b, apiVersion)
	b = append(b, `,"metadata":{"resourceVersion":"`...)
	b = strconv.AppendUint(b, uint64(rv), 10)
	b = append(b, `","creationTimestamp":null`...)
	if t == InitialEventsEnd {
		b = append(b, `,"annotations":{"`+metav1.InitialEventsAnnotationKey+`":"true"}`...)
	}
	return frame(t, append(b, "}}"...))
}

// ErrorFrame encodes what is the last line of a watch that ends with an error.
func ErrorFrame(status metav1.Status) []byte {
	b, err := json.Marshal(status)
	if err != nil {
		// A Status holds only strings and numbers.
		panic("kube: a Status that cannot be encoded: " + err.Error())
	}
	return frame(Error, b)
}

func frame(t EventType, object []byte) []byte {
	return slices.Concat([]byte(`{"type":"`+t.String()+`","object":`), object, []byte("}\n"))
}
