package decode

import (
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/kube"
)

// Stock returns a function that decodes with client-go's decoder, which knows every type
// and every error.
func Stock[T comparable]() func(object []byte) (T, error) {
	return func(object []byte) (T, error) {
		var o T
		if err := kjson.UnmarshalCaseSensitivePreserveInts(object, &o); err != nil {
			return o, &kube.DecodeError{Offset: -1, Why: err.Error()}
		}
		var none T
		if o == none {
			return o, &kube.DecodeError{Offset: 0, Why: "null is no object"}
		}
		return o, nil
	}
}
