package schema

import (
	"encoding/hex"
	"encoding/json"
)

// Excerpt shows the beginning of a body that was not understood, in hex when it
// does not even begin as JSON (upstream's summarizeData).
func Excerpt(body []byte) string {
	const shown = 30
	if len(body) == 0 {
		return "<empty>"
	}
	more := ""
	if len(body) > shown {
		body, more = body[:shown], " ..."
	}
	if body[0] == '{' {
		return string(body) + more
	}
	return hex.EncodeToString(body) + more
}

// Head reads what a JSON body says of itself, apiVersion and kind, and nothing
// else; the error is what clients know as the reason of a body that is no object.
func Head(body []byte) (apiVersion, kind string, err error) {
	var head struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	err = json.Unmarshal(body, &head)
	return head.APIVersion, head.Kind, err
}
