package fault

import (
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/fault/internal/frames"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Opened is the type of the first frame that an editor gets: the header of the answer was
// sent, and no event yet. The frame itself is nothing on the wire.
const Opened = "OPENED"

// Form is how the events of a watch are encoded.
type Form int

// The forms.
const (
	JSON Form = iota
	Protobuf
)

// Ending says how the answer to a watch ends.
type Ending int

// The endings.
const (
	GoOn Ending = iota
	// Clean is how a server ends a watch: the end of the body, or a Close message.
	Clean
	// Severed closes the connection without that; in HTTP/2 it resets the stream.
	Severed
	// Reset resets the connection of TCP, with all that it carries. Without Set.Listener it
	// is Severed.
	Reset
	// Silent leaves the connection open, and nothing more is sent on it, not even answers
	// to pings, until the rule is removed; then it is cut. Without Set.Listener pings of
	// HTTP/2 are answered.
	Silent
)

// Frame is one event of a watch, between the server and the client.
type Frame struct {
	// Type is that of the event, like "ADDED", or Opened; "" if the event cannot be decoded.
	Type string
	// Form is how Body is encoded.
	Form Form
	// Body is the event: JSON, or a metav1.WatchEvent in protobuf. What separates frames is
	// not part of it.
	Body []byte

	// Half sends only the first half of the frame.
	Half bool
	// Writes is in how many writes the frame is sent; frames with 0 are sent together with
	// those before them.
	Writes int
	// End ends the answer after the frame.
	End Ending

	stream *stream
}

// About is what a frame says of its object.
type About struct {
	APIVersion, Kind string
	ResourceVersion  string
	// InitialEventsEnd says that the frame is the bookmark that ends the initial events.
	InitialEventsEnd bool
}

// Later sends, after a time, what do returns then, unless the answer has ended. do is called
// like an editor.
func (f Frame) Later(after time.Duration, do func() []Frame) {
	if f.stream != nil {
		f.stream.laterLocked(after, do)
	}
}

// EndAtRemoval cuts the answer when the rule is removed or the server stops, for actions after
// which a client would wait for what does not come any more.
func (f Frame) EndAtRemoval() {
	if f.stream != nil {
		f.stream.endAtRemoval()
	}
}

// About reads the frame's object; what cannot be read stays empty.
func (f Frame) About() About {
	if f.Form == Protobuf {
		unknown, meta, err := frames.OpenEvent(f.Body)
		if err != nil {
			return About{}
		}
		return about(unknown.APIVersion, unknown.Kind, &meta)
	}
	var e struct {
		Object metav1.PartialObjectMetadata `json:"object"`
	}
	if json.Unmarshal(f.Body, &e) != nil {
		return About{}
	}
	return about(e.Object.APIVersion, e.Object.Kind, &e.Object)
}

func about(apiVersion, kind string, o *metav1.PartialObjectMetadata) About {
	return About{
		APIVersion: apiVersion, Kind: kind, ResourceVersion: o.ResourceVersion,
		InitialEventsEnd: o.Annotations[metav1.InitialEventsAnnotationKey] == "true",
	}
}

// Status returns an ERROR frame with the Status of an error, in the form of f.
func (f Frame) Status(of error) Frame {
	status := wire.StatusOf(of)
	f.Type = "ERROR"
	if f.Form == JSON {
		f.Body = trimLine(wire.ErrorFrame(status))
		return f
	}
	f.Body = frames.Event(f.Type, runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, status.Marshal)
	return f
}

// Bookmark returns a plain bookmark for the kind of f's object, in the form of f.
func (f Frame) Bookmark(rv string) Frame {
	of := f.About()
	f.Type = "BOOKMARK"
	if f.Form == JSON {
		n, _ := strconv.ParseUint(rv, 10, 64) // 0 if it is none
		f.Body = trimLine(wire.BookmarkFrame(of.APIVersion, of.Kind, kube.ResourceVersion(n), kube.Bookmark))
		return f
	}
	object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}
	f.Body = frames.Event(f.Type, runtime.TypeMeta{APIVersion: of.APIVersion, Kind: of.Kind}, object.Marshal)
	return f
}

func trimLine(line []byte) []byte { return line[:len(line)-1] }
