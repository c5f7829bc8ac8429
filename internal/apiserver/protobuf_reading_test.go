package apiserver_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	protobufType     = "application/vnd.kubernetes.protobuf"
	partialParams    = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partialsParams   = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	protobufAccepted = "Accept: " + protobufType
)

// decodable is what the generated code can decode.
type decodable interface {
	runtime.Object
	Unmarshal(data []byte) error
}

// messageOf returns an empty object for what an envelope says that it has.
func messageOf(kind schema.GroupVersionKind) (decodable, error) {
	switch kind.Kind {
	case "PartialObjectMetadata":
		return &metav1.PartialObjectMetadata{}, nil
	case "PartialObjectMetadataList":
		return &metav1.PartialObjectMetadataList{}, nil
	case "Status":
		return &metav1.Status{}, nil
	}
	made, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	empty, is := made.(decodable)
	if !is {
		return nil, fmt.Errorf("%s is no message", kind)
	}
	return empty, nil
}

// openEnvelope decodes an answer in protobuf.
func openEnvelope(body []byte) (runtime.Object, error) {
	raw, found := bytes.CutPrefix(body, []byte("k8s\x00"))
	var u runtime.Unknown
	if err := u.Unmarshal(raw); err != nil || !found {
		return nil, fmt.Errorf("no envelope: %.100q (%w)", body, err)
	}
	o, err := messageOf(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := o.Unmarshal(u.Raw); err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(u.GroupVersionKind())
	return o, nil
}

// envelopeTree is an answer in protobuf as a tree of its JSON.
func envelopeTree(t testing.TB, body []byte) map[string]any {
	t.Helper()
	o, err := openEnvelope(body)
	if err != nil {
		t.Fatalf("open the envelope: %v", err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	return tree(t, string(text))
}

// readEvent reads one frame of a watch in protobuf as a tree of its JSON.
func readEvent(t testing.TB, from io.Reader) map[string]any {
	t.Helper()
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		t.Fatalf("read the length of a frame: %v", err)
	}
	event := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(from, event); err != nil {
		t.Fatalf("read a frame: %v", err)
	}
	return eventTree(t, event)
}

// eventTree is an event without its length.
func eventTree(t testing.TB, event []byte) map[string]any {
	t.Helper()
	var e metav1.WatchEvent
	if err := e.Unmarshal(event); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return map[string]any{"type": e.Type, "object": envelopeTree(t, e.Object.Raw)}
}
