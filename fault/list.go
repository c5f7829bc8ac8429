package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/fault/internal/frames"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// objectList is an answer with a list, read as single objects and as the initial events of a watch.
type objectList struct {
	// apiVersion and kind are those of the objects.
	apiVersion, kind string
	resourceVersion  string
	// protobuf says how the objects are encoded.
	protobuf bool
	// objects are encoded as in answers to gets.
	objects [][]byte
}

// readList reads an answer with a list, in JSON or protobuf.
func readList(answer []byte) (objectList, error) {
	if bytes.HasPrefix(answer, []byte(frames.Magic)) {
		return readProtobufList(answer[len(frames.Magic):])
	}
	var list struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   metav1.ListMeta   `json:"metadata"`
		Items      []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return objectList{}, fmt.Errorf("read a list: %w", err)
	}
	out, err := newList(list.APIVersion, list.Kind, list.Metadata.ResourceVersion)
	for _, item := range list.Items {
		if len(item) < 2 || item[0] != '{' {
			return objectList{}, errors.New("read a list: an item is no object")
		}
		out.objects = append(out.objects, out.typed(item))
	}
	return out, err
}

func newList(apiVersion, kind, rv string) (objectList, error) {
	item, is := strings.CutSuffix(kind, "List")
	if !is {
		return objectList{}, fmt.Errorf("read a list: its kind is %q", kind)
	}
	return objectList{apiVersion: apiVersion, kind: item, resourceVersion: rv}, nil
}

// typed returns an object with its kind, which items of built-in kinds do not have.
func (l *objectList) typed(item []byte) []byte {
	var has metav1.TypeMeta
	if json.Unmarshal(item, &has) == nil && has.Kind != "" {
		return item
	}
	head := append(append(append([]byte(`{"kind":`), quoted(l.kind)...), `,"apiVersion":`...), quoted(l.apiVersion)...)
	if members := bytes.TrimSpace(item[1:]); members[0] != '}' {
		head = append(head, ',')
	}
	return append(head, item[1:]...)
}

func quoted(text string) []byte { return wire.AppendString(nil, text) }

// Of messages of lists, in all groups.
const (
	metadataField = 1
	itemsField    = 2
)

func readProtobufList(envelope []byte) (objectList, error) {
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(envelope); err != nil {
		return objectList{}, fmt.Errorf("read a list: %w", err)
	}
	out, err := newList(unknown.APIVersion, unknown.Kind, "")
	if err != nil {
		return objectList{}, err
	}
	out.protobuf = true
	for rest := unknown.Raw; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return objectList{}, fmt.Errorf("read a list: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			return objectList{}, fmt.Errorf("read a list: %w", protowire.ParseError(size))
		}
		value, _ := protowire.ConsumeBytes(rest[n : n+size]) // nil unless the field has bytes
		rest = rest[n+size:]
		switch {
		case kind != protowire.BytesType:
		case number == metadataField:
			var meta metav1.ListMeta
			if err := meta.Unmarshal(value); err != nil {
				return objectList{}, fmt.Errorf("read a list: %w", err)
			}
			out.resourceVersion = meta.ResourceVersion
		case number == itemsField:
			object, err := (&runtime.Unknown{
				TypeMeta: runtime.TypeMeta{APIVersion: out.apiVersion, Kind: out.kind}, Raw: value,
			}).Marshal()
			if err != nil {
				return objectList{}, fmt.Errorf("read a list: %w", err)
			}
			out.objects = append(out.objects, append([]byte(frames.Magic), object...))
		}
	}
	return out, nil
}

// added returns the event of an object.
func (l *objectList) added(object []byte) []byte {
	if !l.protobuf {
		return append(append([]byte(`{"type":"ADDED","object":`), object...), '}')
	}
	body, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		panic("fault: an event that cannot be encoded: " + err.Error()) // it has only bytes
	}
	return body
}

// end returns the bookmark that ends the initial events.
func (l *objectList) end() []byte {
	rv, err := kube.ParseResourceVersion(l.resourceVersion)
	if err != nil {
		rv = 0 // clients take it for any
	}
	if !l.protobuf {
		return bytes.TrimSpace(wire.BookmarkFrame(l.apiVersion, l.kind, rv, kube.InitialEventsEnd))
	}
	object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: l.resourceVersion, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}
	return frames.Event("BOOKMARK", runtime.TypeMeta{APIVersion: l.apiVersion, Kind: l.kind}, object.Marshal)
}
