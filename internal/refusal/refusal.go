// Package refusal answers requests that are not served.
//
// A refusal is the Status of an error, as an answer. A [Gate] refuses everything until it is opened.
package refusal

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/gapless-io/gapless/internal/wire"
)

// Write answers a request with the Status of an error in JSON, and with the header Retry-After if the
// Status says when to try again.
func Write(w http.ResponseWriter, err error) {
	status := wire.StatusOf(err)
	if seconds, given := wire.RetryAfter(status); given {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	body, err := json.Marshal(status)
	if err != nil {
		panic("refusal: a Status that cannot be encoded: " + err.Error()) // it has only texts and numbers
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
