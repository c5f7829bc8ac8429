package fault

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// LargeFrame makes an event large: in JSON by an annotation of the object, in protobuf by a
// field of the event that decoders skip.
type LargeFrame struct {
	// Bytes is by how much; the default is 3 MiB, the largest object that etcd stores.
	Bytes int `json:"bytes,omitzero"`
	// Frames is how many events about objects are sent before.
	Frames int `json:"frames,omitzero"`
}

const defaultLarge = 3 << 20

// Serve implements Action.
func (l *LargeFrame) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	padding := strings.Repeat("x", cmp.Or(l.Bytes, defaultLarge))
	Frames(w, r, next, onEvent(l.Frames, func(f Frame) Frame {
		const field15 = 15<<3 | 2
		if f.Form == Protobuf {
			f.Body = append(binary.AppendUvarint(append(f.Body, field15), uint64(len(padding))), padding...)
		} else if body, err := annotate(f.Body, padding); err == nil {
			f.Body = body
		}
		return f
	}))
}

// annotate adds an annotation to the object of an event.
func annotate(event []byte, value string) ([]byte, error) {
	var e map[string]any
	d := json.NewDecoder(bytes.NewReader(event))
	d.UseNumber()
	if err := d.Decode(&e); err != nil {
		return nil, err
	}
	object, _ := e["object"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		return nil, errors.New("the event has no object")
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations["gapless.io/fault"] = value
	metadata["annotations"] = annotations
	return json.Marshal(e)
}

func (l *LargeFrame) check(*Rule, Host) error {
	if l.Bytes < 0 || l.Bytes > maxFrame || l.Frames < 0 {
		return errors.New("with.bytes: want at most 64 MiB; with.frames: want 0 or more")
	}
	return nil
}
