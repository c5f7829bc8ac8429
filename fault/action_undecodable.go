package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Undecodable replaces the object of an event by one that cannot be decoded.
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
		of := f.About()
		switch {
		case u.How == "syntax" && f.Form == JSON:
			f.Body = []byte(`{"type":"` + f.Type + `","object":}`)
		case u.How == "syntax":
			f.Body = []byte("\xff\xff\xff")
		case f.Form == Protobuf:
			f.Body = event(f.Type, of.APIVersion, of.Kind, []byte("\xff\xff\xff"), nil)
		default:
			object, _ := json.Marshal(map[string]any{ // it has only texts
				"apiVersion": of.APIVersion, "kind": of.Kind,
				"metadata": map[string]any{"name": "undecodable", "resourceVersion": of.ResourceVersion, "labels": 7},
			})
			f.Body = []byte(`{"type":"` + f.Type + `","object":` + string(object) + `}`)
		}
		return f
	}))
}

func (u *Undecodable) check(*Rule, Host) error {
	if u.How != "" && u.How != "type" && u.How != "syntax" || u.Frames < 0 {
		return fmt.Errorf("with.how is %q and with.frames %d: want type or syntax, and 0 or more", u.How, u.Frames)
	}
	return nil
}
