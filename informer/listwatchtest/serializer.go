package listwatchtest

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// serialized writes an answer with upstream's serializers, as an API server does.
type serialized struct {
	s       *Server
	r       Request
	f       Fault
	codecs  serializer.CodecFactory
	info    runtime.SerializerInfo
	partial bool
}

func (s *Server) serializer(r Request, f Fault) serialized {
	media := runtime.ContentTypeJSON
	if r.Protobuf && !f.JSON {
		media = typeProtobuf
	}
	c := serialized{s: s, r: r, f: f, codecs: serializer.NewCodecFactory(s.Scheme), partial: r.Metadata && s.ServesMetadata}
	c.info, _ = runtime.SerializerInfoForMediaType(c.codecs.SupportedMediaTypes(), media)
	return c
}

func (c serialized) contentType() string { return c.info.MediaType }

// object decodes the JSON of an object whose type is in the scheme.
func (c serialized) object(raw []byte) runtime.Object {
	o, _, err := c.codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		panic(err)
	}
	if _, is := o.(*metav1.Status); is || !c.partial {
		return o
	}
	partial := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, partial); err != nil {
		panic(err)
	}
	partial.TypeMeta = partialType()
	return partial
}

// encoded encodes an object that is not part of a list.
func (c serialized) encoded(o runtime.Object) []byte {
	var b bytes.Buffer
	versions := schema.GroupVersions{{Version: "v1"}, metav1.SchemeGroupVersion}
	if err := c.codecs.EncoderForVersion(c.info.Serializer, versions).Encode(o, &b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (c serialized) list(p page) []byte {
	var list runtime.Object = &metav1.PartialObjectMetadataList{}
	if !c.partial {
		made, err := c.s.Scheme.New(schema.GroupVersionKind{Version: "v1", Kind: c.s.kind() + "List"})
		if err != nil {
			panic(err)
		}
		list = made
	}
	var items []runtime.Object
	for _, raw := range p.items {
		item := c.object(raw)
		if !c.partial {
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		items = append(items, item)
	}
	if err := meta.SetList(list, items); err != nil {
		panic(err)
	}
	of, err := meta.ListAccessor(list)
	if err != nil {
		panic(err)
	}
	of.SetResourceVersion(p.resourceVersion())
	of.SetContinue(p.next)
	return c.encoded(list)
}

func (c serialized) frame(event string, object []byte) []byte {
	o := c.object(object)
	raw := c.encoded(o)
	if of, err := meta.Accessor(o); err == nil && of.GetName() != "" && c.info.MediaType == typeProtobuf && c.f.BadProtobuf {
		raw = []byte("k8s\x00\x12\x02\x08\x01")
	}
	var b bytes.Buffer
	stream := c.info.StreamSerializer
	if err := stream.Encode(&metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: raw}},
		stream.NewFrameWriter(&b)); err != nil {
		panic(err)
	}
	return b.Bytes()
}
