package dashboard

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
)

// place is where a page of what differs begins: behind the key of an object of a resource. The zero value is the
// beginning of all.
type place struct {
	ID  string `json:"r"`
	Key string `json:"k,omitempty"`
	// Lists says that lists of both moments are compared. Old and New continue them; "": they begin. With OldEnded, or
	// NewEnded, nothing is left of one.
	Lists    bool   `json:"l,omitempty"`
	Old      string `json:"o,omitempty"`
	New      string `json:"n,omitempty"`
	OldEnded bool   `json:"oe,omitempty"`
	// Since is the resourceVersion at which the history begins, if that is after the first moment.
	Since    uint64 `json:"s,omitempty"`
	NewEnded bool   `json:"ne,omitempty"`
}

// maxPlace is how many bytes of a place are read.
const maxPlace = 8 << 10

// encode returns the place as a query has it.
func (p place) encode() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // it has only texts and truths
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parsePlace reads a place; "" is the beginning. Errors: *Refusal.
func parsePlace(text string) (p place, err error) {
	if text == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text[:min(len(text), maxPlace)])
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil || p.ID == "" {
		return place{}, &Refusal{Code: http.StatusBadRequest, Message: "This is no page of what differs: begin again."}
	}
	return p, nil
}
