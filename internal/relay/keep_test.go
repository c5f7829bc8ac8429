package relay

import (
	"encoding/json"
	"testing"
)

func FuzzKeptState(f *testing.F) {
	f.Add([]byte(`{"resources":[{"Group":"apps","Version":"v1","Resource":"deployments","Kind":"Deployment","Verbs":["list","watch"],"Namespaced":true}],"contacts":{"pods.v1":"2026-11-25T00:00:00Z"}}`))
	f.Add([]byte(`{"resources":[{"Version":"v1"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		was, err := decodeState(body)
		if err != nil {
			return
		}
		encoded, err := json.Marshal(was)
		if err != nil {
			return // a time without a form in JSON
		}
		if again, err := decodeState(encoded); err != nil || len(again.Resources) != len(was.Resources) {
			t.Errorf("%d resources came back as %d: %v", len(was.Resources), len(again.Resources), err)
		}
	})
}
