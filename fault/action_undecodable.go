package fault

import (
	"fmt"
	"net/http"

	"github.com/gapless-io/gapless/fault/internal/frames"
)

// Undecodable makes the object of an event one that cannot be decoded.
type Undecodable struct {
	// How is "type", a field has the wrong type, which is the default; or "syntax", the event
	// is no JSON, or no protobuf.
	How string `json:"how,omitzero"`
	// Frames is how many events about objects are sent before.
	Frames int `json:"frames,omitzero"`
}

// Serve implements Action.
func (u *Undecodable) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	Frames(w, r, next, onEvent(u.Frames, func(f Frame) Frame {
		switch {
		case u.How == "syntax" && f.Form == JSON:
			f.Body = []byte(`{"type":"` + f.Type + `","object":}`)
		case u.How == "syntax":
			f.Body = []byte("\xff\xff\xff")
		case f.Form == JSON:
			f.Body = frames.ChangeObject(f.Body, func(metadata map[string]any) { metadata["labels"] = 7 })
		default: // a field after the metadata that ends too early
			of, meta, _ := frames.OpenEvent(f.Body) // what cannot be read is left out
			f.Body = frames.Event(f.Type, of.TypeMeta, func() ([]byte, error) {
				message, err := meta.Marshal()
				return append(message, 0x12, 0x7f), err
			})
		}
		return f
	}))
}

func (u *Undecodable) check(*Rule, host) error {
	if u.How != "" && u.How != "type" && u.How != "syntax" || u.Frames < 0 {
		return fmt.Errorf("with.how is %q and with.frames %d: want type or syntax, and 0 or more", u.How, u.Frames)
	}
	return nil
}
