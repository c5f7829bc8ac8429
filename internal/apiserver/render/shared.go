package render

import (
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver/protobuf"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

const (
	// sharedSlots is how many events are kept, and sharedBytes the largest body of one,
	// and the largest object: together they need at most 32 MiB. Watches that follow a
	// busy resource are at most some dozen events apart.
	sharedSlots = 256
	sharedBytes = 64 << 10
)

// Shared keeps the bodies of the events that were rendered last, so that an event is
// rendered once for all watches of one form and not once per watch. The zero value is
// ready. It is safe for concurrent use.
type Shared struct {
	slots [sharedSlots]atomic.Pointer[sharedEvent]
	// messages are the events in protobuf, and initial states.
	messages protobuf.Cache
}

// MessageBytes returns how much memory the messages in protobuf take.
func (s *Shared) MessageBytes() int64 { return s.messages.Bytes() }

type sharedEvent struct {
	object *wire.Object
	form   eventForm
	body   []byte
}

// eventForm is all that the body of an event depends on besides the object. second is that
// of the ages in a table.
type eventForm struct {
	resource *kinds.Resource
	scale    bool
	shape    shape
	version  string
	drops    bool
	include  metav1.IncludeObjectPolicy
	second   int64
}

// slot is where the event of a resourceVersion is kept in a form: 256 that follow each other
// in one form have each their own, and so have all shapes of one event.
func (f *eventForm) slot(rv kube.ResourceVersion) uint64 {
	variant := uint64(f.shape)
	if f.drops {
		variant += uint64(shapes)
	}
	switch f.include {
	case metav1.IncludeMetadata:
	case metav1.IncludeNone:
		variant += 2 * uint64(shapes)
	case metav1.IncludeObject:
		variant += 4 * uint64(shapes)
	}
	return (uint64(rv) ^ variant<<3) % sharedSlots
}

// event returns the object of an event in the form of r, which must not be changed.
func (s *Shared) event(r *Renderer, o *wire.Object) ([]byte, error) {
	form := eventForm{
		resource: r.resource, scale: r.scale, shape: r.shape, version: r.version, drops: r.drops, include: r.include,
	}
	if r.shape == shapeTable {
		form.second = r.now.Unix()
	}
	slot := &s.slots[form.slot(o.ResourceVersion())]
	if known := slot.Load(); known != nil && known.object == o && known.form == form {
		return known.body, nil
	}
	body, err := r.Object(o)
	if err == nil && len(body) <= sharedBytes && o.Size() <= sharedBytes {
		slot.Store(&sharedEvent{object: o, form: form, body: body})
	}
	return body, err
}
