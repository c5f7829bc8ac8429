package fault

import (
	"cmp"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"

	"github.com/gapless-io/gapless/fault/internal/frames"
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
		} else {
			f.Body = frames.ChangeObject(f.Body, func(metadata map[string]any) {
				annotations, _ := metadata["annotations"].(map[string]any)
				if annotations == nil {
					annotations = map[string]any{}
				}
				annotations["gapless.io/fault"] = padding
				metadata["annotations"] = annotations
			})
		}
		return f
	}))
}

func (l *LargeFrame) check(*Rule, host) error {
	if l.Bytes < 0 || l.Bytes > maxFrame || l.Frames < 0 {
		return errors.New("with.bytes: want at most 64 MiB; with.frames: want 0 or more")
	}
	return nil
}
