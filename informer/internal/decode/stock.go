package decode

import (
	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/gapless-io/gapless/kube"
)

// Stock returns a function that decodes with the stock decoder, which knows every type
// and every error.
func Stock[T comparable]() func(object []byte) (T, error) {
	options := json.JoinOptions(jsonv1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false))
	return func(object []byte) (T, error) {
		var o T
		if err := json.Unmarshal(object, &o, options); err != nil {
			return o, &kube.DecodeError{Offset: -1, Why: err.Error()}
		}
		var none T
		if o == none {
			return o, &kube.DecodeError{Offset: 0, Why: "null is no object"}
		}
		return o, nil
	}
}
