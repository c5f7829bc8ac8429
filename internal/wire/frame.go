package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

// FrameHead and FrameTail are the text before and after the object in a line of
// a watch: `{"type":"ADDED","object":{…}}` and a newline.
func FrameHead(t kube.EventType) string { return `{"type":"` + t.String() + `","object":` }

// FrameTail is the end of a line: see FrameHead.
const FrameTail = "}\n"

// BookmarkFrame encodes a bookmark at rv. t is Bookmark, or InitialEventsEnd for the
// annotated one that ends the initial events. apiVersion and kind are those of the watched
// resource.
func BookmarkFrame(apiVersion, kind string, rv kube.ResourceVersion, t kube.EventType) []byte {
	b := make([]byte, 0, 192)
	b = append(b, `{"kind":`...)
	b = AppendString(b, kind)
	b = append(b, `,"apiVersion":`...)
	b = AppendString(b, apiVersion)
	b = append(b, `,"metadata":{"resourceVersion":"`...)
	b = strconv.AppendUint(b, uint64(rv), 10)
	b = append(b, '"')
	if t == kube.InitialEventsEnd {
		b = append(b, `,"annotations":{"`+metav1.InitialEventsAnnotationKey+`":"true"}`...)
	}
	return frame(t, append(b, "}}"...))
}

// DeltaEndFrame encodes the bookmark at rv that ends a delta since a
// resourceVersion: that of InitialEventsEnd with DeltaAnnotation.
func DeltaEndFrame(apiVersion, kind string, rv, since kube.ResourceVersion) []byte {
	const end = `"` + metav1.InitialEventsAnnotationKey + `":"true"`
	line := BookmarkFrame(apiVersion, kind, rv, kube.InitialEventsEnd)
	at := bytes.LastIndex(line, []byte(end)) + len(end)
	return slices.Concat(line[:at], fmt.Appendf(nil, `,%q:"%d"`, kube.DeltaAnnotation, since), line[at:])
}

// ErrorFrame encodes the last line of a watch that ends with an error.
func ErrorFrame(status metav1.Status) []byte {
	b, err := json.Marshal(status)
	if err != nil {
		// A Status holds only strings and numbers.
		panic("kube: a Status that cannot be encoded: " + err.Error())
	}
	return frame(kube.Error, b)
}

func frame(t kube.EventType, object []byte) []byte {
	return slices.Concat([]byte(FrameHead(t)), object, []byte(FrameTail))
}
